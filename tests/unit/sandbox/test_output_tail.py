"""What a person reads of a sandbox: an agent's last words, and why there is no sandbox."""

from pathlib import Path

import pytest

from agentjobs.sandbox.availability import why_namespaces_fail
from agentjobs.sandbox.output_tail import Tail, last_lines


def test_twenty_lines_are_kept() -> None:
    output = "".join(f"line {number}\n" for number in range(100))
    assert last_lines(output.encode()).split("\n") == [
        f"line {number}" for number in range(80, 100)
    ]


def test_four_thousand_characters_are_kept_and_no_half_word() -> None:
    kept = last_lines(b"password " * 100_000)
    assert 4_000 < len(kept) <= 4_096
    assert set(kept.split()) == {"password"}


def test_a_word_without_end_is_left_out() -> None:
    assert last_lines(b"a" * 100_000) == ""


def test_colours_and_controls_are_dropped() -> None:
    link = "\x1b]8;;http://x\x07link\x1b]8;;\x07"
    coloured = f"\x1b[1;31merror\x1b[0m: {link}\0\b \u009b\u202e!"
    assert last_lines(coloured.encode()) == "error: link !"


def test_of_a_progress_bar_the_last_state_stays() -> None:
    assert last_lines(b"10%\r50%\r100%\r\ndone\r\n") == "100%\ndone"


def test_invalid_utf_8_is_replaced() -> None:
    assert last_lines(b"caf\xe9") == "caf\N{REPLACEMENT CHARACTER}"


def test_tabs_and_odd_spaces_become_spaces() -> None:
    assert last_lines("a\tb\u00a0c".encode()) == "a b c"


def test_a_stream_of_any_length_is_remembered_by_its_end() -> None:
    tail = Tail()
    for number in range(10_000):
        tail.add(f"line {number}\n".encode())
    assert tail.last_lines().endswith("line 9998\nline 9999")


@pytest.mark.parametrize(
    ("setting", "value", "command"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_a_kernel_setting_that_forbids_the_sandbox_is_named(
    tmp_path: Path, setting: str, value: str, command: str
) -> None:
    path = tmp_path / "sys" / setting
    path.parent.mkdir(parents=True)
    path.write_text(f"{value}\n")
    message = why_namespaces_fail("bwrap: setting up uid map", as_root=False, proc=tmp_path)
    assert command in message
    assert "bwrap: setting up uid map" in message


def test_without_such_a_setting_the_needs_are_named(tmp_path: Path) -> None:
    assert "unprivileged user namespaces" in why_namespaces_fail("x", False, tmp_path)
    assert "CAP_SYS_ADMIN" in why_namespaces_fail("x", True, tmp_path)
