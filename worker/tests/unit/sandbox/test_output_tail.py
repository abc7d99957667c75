"""The end of an agent's output, and the message that explains a missing sandbox."""

from pathlib import Path

import pytest

from agentjobs_worker.sandbox.availability import explain_namespace_failure
from agentjobs_worker.sandbox.output_tail import OutputTail, last_lines


def test_the_last_twenty_lines_are_kept() -> None:
    output = "".join(f"line {number}\n" for number in range(100))
    assert last_lines(output.encode()).split("\n") == [
        f"line {number}" for number in range(80, 100)
    ]


def test_about_four_thousand_characters_are_kept_cut_between_words() -> None:
    tail_text = last_lines(b"password " * 100_000)
    assert 4_000 < len(tail_text) <= 4_096
    assert set(tail_text.split()) == {"password"}


def test_an_overlong_word_is_omitted() -> None:
    assert last_lines(b"a" * 100_000) == ""


def test_colors_and_control_characters_are_removed() -> None:
    link = "\x1b]8;;http://x\x07link\x1b]8;;\x07"
    coloured = f"\x1b[1;31merror\x1b[0m: {link}\0\b \u009b\u202e!"
    assert last_lines(coloured.encode()) == "error: link !"


def test_only_the_last_state_of_a_progress_bar_is_kept() -> None:
    assert last_lines(b"10%\r50%\r100%\r\ndone\r\n") == "100%\ndone"


def test_invalid_utf_8_is_replaced() -> None:
    assert last_lines(b"caf\xe9") == "caf\N{REPLACEMENT CHARACTER}"


def test_tabs_and_odd_spaces_become_spaces() -> None:
    assert last_lines("a\tb\u00a0c".encode()) == "a b c"


def test_a_tail_keeps_the_end_of_a_stream_of_any_length() -> None:
    tail = OutputTail()
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
    message = explain_namespace_failure("bwrap: setting up uid map", as_root=False, proc=tmp_path)
    assert command in message
    assert "bwrap: setting up uid map" in message


def test_without_such_a_setting_the_requirements_are_named(tmp_path: Path) -> None:
    assert "unprivileged user namespaces" in explain_namespace_failure("x", False, tmp_path)
    assert "CAP_SYS_ADMIN" in explain_namespace_failure("x", True, tmp_path)
