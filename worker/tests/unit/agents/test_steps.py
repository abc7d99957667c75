"""The steps that presets find in what their real programs printed, as recorded.

Claude Code 2.1.197, Codex 0.166.0, opencode 1.18.18 and mini-swe-agent 2.4.6 ran with a scripted
model that reads and changes files and runs a command that fails.
"""

import shutil
from pathlib import Path

import pytest

from agentjobs_runtime.agents.steps import Step, to_duration, to_exit_code
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.agents.presets.event_stream import MAX_BLOCKS
from agentjobs_worker.agents.presets.tool_steps import message_step, tool_step, unwrap_script
from tests.support.paths import DATA

RECORDED = DATA / "agent_events"
NO_FILE = "ls: cannot access 'nothing': No such file or directory"


def recorded_steps(preset: str) -> list[Step]:
    watch, steps = PRESETS[preset].watcher(), list[Step]()
    watch.on_step = steps.append
    watch.feed((RECORDED / f"{preset}.jsonl").read_bytes())
    watch.end()
    return steps


@pytest.mark.parametrize("preset", ["claude-code", "codex", "opencode"])
def test_the_log_has_the_steps(preset: str) -> None:
    watch = PRESETS[preset].watcher()
    log = (watch.feed((RECORDED / f"{preset}.jsonl").read_bytes()) + watch.end()).decode()
    assert f"Step 2.\n> ls nothing; exit 3\n  {NO_FILE}\n" in log
    assert "\n  exit code 3\nStep 3.\n> echo hi; sleep 1\n  hi\n" in log
    assert "> change README.md\n" in log


def summary(step: Step) -> tuple[str, str, str]:
    return step.kind, step.title, step.state


def test_claude_code_reports_when_a_tool_starts_and_what_it_returned() -> None:
    steps = recorded_steps("claude-code")
    assert [summary(step) for step in steps[:6]] == [
        ("message", "Step 0.", "succeeded"),
        ("read", "README.md", "running"),
        ("other", "", "succeeded"),
        ("message", "Step 1.", "succeeded"),
        ("change", "README.md", "running"),
        ("other", "", "succeeded"),
    ]
    start, end = steps[4:6]
    assert start.key == end.key != ""
    assert start.detail == "-A shop.\n+A good shop."
    command, failure = steps[7:9]
    assert summary(command) == ("command", "ls nothing; exit 3", "running")
    assert (failure.state, failure.exit_code, failure.detail) == ("failed", 3, NO_FILE)
    titles = [step.title for step in steps if step.state == "running"][2:]
    assert titles == [
        *("ls nothing; exit 3", "echo hi; sleep 1", "Grep /workspace", "new.txt"),
        *("missing.md", "TodoWrite"),
    ]


def test_codex_reports_commands_with_exit_codes_and_each_changed_file() -> None:
    steps = recorded_steps("codex")
    assert [(*summary(step), step.exit_code) for step in steps[:10]] == [
        ("message", "Step 0.", "succeeded", None),
        ("command", "cat README.md", "running", None),
        ("command", "cat README.md", "succeeded", 0),
        ("message", "Step 1.", "succeeded", None),
        ("change", "README.md", "running", None),
        ("change", "new.txt (new)", "running", None),
        ("change", "README.md", "succeeded", None),
        ("change", "new.txt (new)", "succeeded", None),
        ("message", "Step 2.", "succeeded", None),
        ("command", "ls nothing; exit 3", "running", None),
    ]
    assert steps[4].key == steps[6].key != steps[5].key
    failure = steps[10]
    assert (failure.state, failure.exit_code, failure.detail.strip()) == ("failed", 3, NO_FILE)


def test_opencode_reports_tools_when_they_end_with_their_durations() -> None:
    steps = recorded_steps("opencode")
    assert [(*summary(step), step.exit_code) for step in steps if step.kind != "message"] == [
        ("read", "README.md", "succeeded", None),
        ("change", "README.md", "succeeded", None),
        ("command", "ls nothing; exit 3", "failed", 3),
        ("command", "echo hi; sleep 1", "succeeded", 0),
        ("other", "grep shop", "failed", None),
        ("other", "glob *.md", "failed", None),
        ("change", "new.txt", "succeeded", None),
        ("read", "missing.md", "failed", None),
        ("other", "todowrite", "succeeded", None),
    ]
    by_title = {step.title: step for step in steps}
    assert by_title["echo hi; sleep 1"].duration_ms == 987
    assert by_title["missing.md"].detail == "File not found: /workspace/missing.md"
    assert by_title["new.txt"].detail == "+new"
    assert "-A shop.\n+A good shop." in steps[3].detail
    assert all(step.key == "" for step in steps)


def test_mini_swe_agent_leaves_its_steps_in_its_trajectory(tmp_path: Path) -> None:
    watch = PRESETS["mini-swe-agent"].watcher()
    assert list(watch.steps_left_in(tmp_path)) == []
    (tmp_path / "report").mkdir()
    trajectory = tmp_path / "report" / "mini-swe-agent.traj.json"
    shutil.copy(RECORDED / "mini-swe-agent.traj.json", trajectory)
    steps = list(watch.steps_left_in(tmp_path))
    assert [(*summary(step), step.exit_code, step.duration_ms) for step in steps] == [
        ("message", "Step 0.", "succeeded", None, None),
        ("command", "cat README.md", "succeeded", 0, 5),
        ("message", "Step 1.", "succeeded", None, None),
        ("command", "ls nothing; exit 3", "failed", 3, 7),
        ("message", "Step 2.", "succeeded", None, None),
        ("command", "echo new > new.txt", "succeeded", 0, 5),
        ("message", "Step 3.", "succeeded", None, None),
    ]
    assert steps[3].detail.strip() == NO_FILE
    assert steps[1].started_at == 1_794_945_598_923


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"messages": [{"role": "tool", "extra": {"returncode": "0"}}]}',
        b'{"messages": ' + b"[" * 5_000,
        b'{"messages": [{"role": "assistant", "extra": {"timestamp": 1e300}}]}',
        b" " * (8 * 1024 * 1024 + 1),
    ],
    ids=["empty", "list", "type", "deep", "time", "long"],
)
def test_a_trajectory_that_is_none_has_no_steps(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "mini-swe-agent.traj.json").write_bytes(content)
    assert list(PRESETS["mini-swe-agent"].watcher().steps_left_in(tmp_path)) == []


def test_aider_reports_the_files_that_it_changed() -> None:
    watch, steps = PRESETS["aider"].watcher(), list[Step]()
    watch.on_step = steps.append
    for piece in (
        b"Tokens: 1 sent, 2 received.\nApplied ed",
        b"it to shop/a b.py\nApplied edit to",
    ):
        watch.feed(piece)
    watch.end()
    assert [summary(step) for step in steps] == [("change", "shop/a b.py", "succeeded")]


def test_a_tool_of_unknown_arguments_is_named() -> None:
    assert tool_step("mcp__x", {"url": "https://x.example"}).title == "mcp__x https://x.example"
    assert summary(tool_step("Edit", {"file_path": 7})) == ("change", "Edit", "succeeded")
    assert tool_step("Bash", {}).title == "Bash"


def test_a_message_has_its_first_line_as_title() -> None:
    assert message_step("One line.\n").detail == ""
    assert message_step("\nFirst.\nSecond.") == Step(
        kind="message", title="First.", detail="\nFirst.\nSecond."
    )


def test_the_shell_of_a_command_is_left_out_if_the_command_is_quoted_as_one() -> None:
    assert unwrap_script("/bin/bash -lc 'pytest -q | tail'") == "pytest -q | tail"
    assert unwrap_script("bash -lc 'a") == "bash -lc 'a"
    assert unwrap_script("make test all") == "make test all"


@pytest.mark.parametrize("value", [True, "1", 2**40, None, 1.5])
def test_no_process_ends_with_this_exit_code(value: object) -> None:
    assert to_exit_code(value) is None


def test_times_that_cannot_be_true_have_no_duration() -> None:
    assert to_duration(1_000, 3_500) == 2_500
    assert to_duration(5, 4) is None
    assert to_duration("5", 9) is None
    assert to_duration(0, 1e300) is None
    assert to_duration(0.5, 10**400) is None


@pytest.mark.parametrize(
    ("preset", "event"),
    [
        ("claude-code", '{"type": "assistant", "message": {"content": [%s]}}'),
        (
            "claude-code",
            '{"type": "user", "message": {"content": [{"type": "tool_result", "content": [%s]}]}}',
        ),
        ("codex", '{"type": "item.completed", "item": {"type": "file_change", "changes": [%s]}}'),
        ("opencode", '{"type": "text", "part": {"text": [%s]}}'),
    ],
)
def test_only_the_first_blocks_of_an_event_are_steps(preset: str, event: str) -> None:
    watch, steps = PRESETS[preset].watcher(), list[Step]()
    watch.on_step = steps.append
    block = '{"type": "text", "text": "x", "path": "x"}'
    shown = watch.feed((event % ", ".join([block] * 10_000)).encode() + b"\n")
    assert steps
    texts = [part for step in steps for part in (step.detail or step.title).split("\n")]
    assert len(texts) <= MAX_BLOCKS
    assert len(shown) < 10_000


def test_the_detail_of_a_change_has_only_its_beginning() -> None:
    step = tool_step("Edit", {"file_path": "a", "old_string": "\n" * 10**6, "new_string": "b"})
    assert step.detail == "\n".join(["-"] * 4_000) + "\n+b"


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("a\nb\n", "a\n", "-a\n-b\n+a"),
        ("", "a\n\nb", "+a\n+\n+b"),
        ("a\x0cb", "\n", "-a\x0cb\n+"),
        ("", "", ""),
    ],
)
def test_a_change_has_its_old_and_its_new_lines(old: str, new: str, detail: str) -> None:
    arguments = {"file_path": "a", "old_string": old, "new_string": new}
    assert tool_step("Edit", arguments).detail == detail
