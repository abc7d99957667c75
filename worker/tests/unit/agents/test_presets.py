"""The commands that presets build, and how they read the output of their programs."""

import json
import os
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from agentjobs_runtime.agents.definitions import Agent, ModelAccess
from agentjobs_runtime.agents.steps import Step
from agentjobs_worker.agents.model_access import model_environment
from agentjobs_worker.agents.presets.all_presets import PRESETS, watcher_for
from agentjobs_worker.agents.presets.event_stream import MAX_EVENT_BYTES
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.sandbox.protocol import SandboxReport

MODEL = ModelAccess(api="openai", url="https://api.openai.com", secret="OPENAI_API_KEY", name="m")


def agent(preset: str | None) -> Agent:
    return Agent(
        id="a", name="A", plan_required="free", command=(), timeout_seconds=1, preset=preset
    )


def report_with(exit_code: int = 0, last_lines: str = "") -> SandboxReport:
    return SandboxReport(exit_code=exit_code, timed_out=False, last_lines=last_lines, duration_ms=1)


def lines(*events: Any) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def run_with_output(preset: str | None, *chunks: bytes) -> tuple[RunWatcher, str]:
    watch, steps = watcher_for(agent(preset)), list[Step]()
    watch.on_step = steps.append
    output = b"".join(map(watch.feed, chunks)) + watch.end()
    assert all(isinstance(step.title + step.detail + step.key, str) for step in steps)
    return watch, output.decode()


def assistant_message(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **fields}


NOWHERE = Path("/nowhere")


def test_the_output_of_a_plain_command_is_its_log_and_its_exit_code_its_outcome() -> None:
    watch, output = run_with_output(None, b'{"type": "result"}', b" tail")
    assert output == '{"type": "result"} tail'
    assert watch.failure_reason(report_with(0), NOWHERE) is None
    failure = watch.failure_reason(report_with(3, "it broke"), NOWHERE)
    assert failure == "The agent ended with exit code 3. Its last lines:\nit broke"


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_program_gets_the_whole_prompt_and_never_as_a_flag(preset: str, tmp_path: Path) -> None:
    command = PRESETS[preset].command(("printf", "%s\\n"), MODEL, ("--extra",))
    variables = {
        "PATH": os.environ["PATH"],
        "AGENTJOBS_PROMPT": "--help $(x) `y`",
        "AGENTJOBS_REPORT": "/r/p.md",
    }
    completed = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, check=True
    )
    printed = completed.stdout.decode().splitlines()
    assert "--extra" in printed
    assert printed[-1] == "--help $(x) `y`"
    assert printed[-2] in ("--", "--task", "--message")


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_points_its_program_at_the_gateway_with_the_jobs_key(preset: str) -> None:
    api = PRESETS[preset].apis[0]
    model = ModelAccess(api=api, url="https://x.example", secret="S", name="m")
    variables = model_environment(agent(preset), model, "the-token")
    assert variables["AGENTJOBS_MODEL"] == "m"
    assert any(value.startswith("http://{address}") for value in variables.values())
    assert "the-token" in variables.values()
    assert not any("{token}" in value for value in variables.values())


def test_events_are_formatted_however_they_are_chunked() -> None:
    stream = lines(assistant_message("Hello ä."), result())
    whole = run_with_output("claude-code", stream)[1]
    assert whole == "Hello ä.\n"
    assert all(
        run_with_output("claude-code", stream[:cut], stream[cut:])[1] == whole
        for cut in range(len(stream) + 1)
    )


def test_other_output_passes_at_once() -> None:
    watch = watcher_for(agent("claude-code"))
    assert watch.feed(b"no newline yet: {") == b"no newline yet: {"
    assert watch.feed(b'"type": "result"}\n') == b'"type": "result"}\n'
    assert watch.feed(b"{not json\n[1]\n") == b"{not json\n[1]\n"
    assert watch.feed(b'{"type": 3}\n') == b'{"type": 3}\n'


def test_lines_around_events_stay_complete_and_in_order() -> None:
    stream = (
        b"a warning\nmore\n"
        + lines(assistant_message("Hi."))
        + b"half {\n"
        + lines(assistant_message("Bye."))
        + b"{x"
    )
    whole = "a warning\nmore\nHi.\nhalf {\nBye.\n{x"
    assert run_with_output("claude-code", stream)[1] == whole
    assert all(
        run_with_output("claude-code", stream[:cut], stream[cut:])[1] == whole
        for cut in range(len(stream) + 1)
    )


def test_an_endless_event_is_not_buffered() -> None:
    watch = watcher_for(agent("claude-code"))
    output = watch.feed(b"{" + b"x" * MAX_EVENT_BYTES)
    assert output.startswith(b"[an event of more than 4 MiB")
    assert watch.feed(b"x" * 1000 + b"\nnext\n") == b"next\n"


@pytest.fixture
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def peak_memory_per_chunk(watch: RunWatcher, *, after: int) -> int:
    """The peak memory for one of 64 chunks of 512 bytes that follow `after` bytes of a line."""
    watch.feed(b"{" + b"x" * after)
    peaks = []
    for _ in range(64):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert watch.feed(b"x" * 512) in (b"", b"x" * 512)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    return max(peaks)


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.usefixtures("traced_memory")
def test_a_line_in_small_chunks_is_not_copied_with_each_chunk(preset: str) -> None:
    watch = watcher_for(agent(preset))
    assert peak_memory_per_chunk(watch, after=MAX_EVENT_BYTES // 2) < MAX_EVENT_BYTES // 8


def test_an_event_of_the_maximum_length_is_read_in_small_chunks() -> None:
    event = lines(assistant_message("x" * (MAX_EVENT_BYTES - 200)))
    chunks = [event[at : at + 512] for at in range(0, len(event), 512)]
    assert run_with_output("claude-code", *chunks)[1] == "x" * (MAX_EVENT_BYTES - 200) + "\n"


def test_an_endless_event_in_small_chunks_is_omitted_once() -> None:
    watch = watcher_for(agent("claude-code"))
    chunks = [b"{", *[b"x" * 4096] * (MAX_EVENT_BYTES // 4096 + 3), b"x\nnext\n"]
    output = b"".join(map(watch.feed, chunks)) + watch.end()
    assert output == b"[an event of more than 4 MiB is omitted]\nnext\n"


CHUNK_BYTES = 64 * 1024


def split_chunks(stream: bytes) -> list[bytes]:
    return [stream[at : at + CHUNK_BYTES] for at in range(0, len(stream), CHUNK_BYTES)]


@pytest.mark.parametrize("value", ["[],", "{},", '"",', "1,"])
def test_an_event_with_a_million_values_is_logged_but_not_parsed(value: str) -> None:
    event = f'{{"type":"assistant","x":[{value * 1_000_000}0]}}\n'.encode()
    watch, steps = watcher_for(agent("claude-code")), list[Step]()
    watch.on_step = steps.append
    assert b"".join(map(watch.feed, split_chunks(event))) == event
    assert [step.title for step in steps] == [
        "A line with more than 20,000 values is only in the log."
    ]
    assert watch.feed(lines(assistant_message("Hello."))) == b"Hello.\n"


def test_a_long_text_with_any_number_of_commas_is_an_event() -> None:
    text = '{"a":[1,2]},' * 100_000
    output = run_with_output("claude-code", *split_chunks(lines(assistant_message(text))))[1]
    assert output == f"{text}\n"


@pytest.mark.parametrize("preset", ["claude-code", "opencode"])
def test_a_name_that_is_no_text_is_not_shown(preset: str) -> None:
    tool = {"type": "tool_use", "name": ["x"], "input": 1}
    output = run_with_output(
        preset,
        lines(
            {"type": "assistant", "message": {"content": [tool]}},
            {"type": "tool_use", "part": {"tool": [{}, []], "state": {"input": 1}}},
        ),
    )[1]
    assert "[" not in output
    assert "> " in output


KINDS = (
    *("result", "assistant", "user", "system", "turn.failed", "turn.completed", "error"),
    *("item.started", "item.completed", "text", "tool_use"),
)
FIELD_NAMES = (
    *("message", "content", "type", "text", "part", "item", "error", "data", "state", "input"),
    *("name", "subtype", "result", "init", "tool_use", "tool_result", "command_execution"),
    *("file_change", "changes", "agent_message", "output", "is_error", "id", "tool_use_id"),
    *("tool", "command", "file_path", "exit_code", "status", "metadata", "exit", "time", "start"),
)
VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(strategies.characters(), max_size=8)
    | strategies.sampled_from(FIELD_NAMES),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(strategies.sampled_from(FIELD_NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    preset=strategies.sampled_from(sorted(PRESETS)),
    kind=strategies.sampled_from(KINDS),
    fields=strategies.dictionaries(strategies.sampled_from(FIELD_NAMES), VALUES, max_size=6),
)
def test_an_event_with_any_content_is_read_without_an_error(
    preset: str, kind: str, fields: dict[str, Any]
) -> None:
    watch, output = run_with_output(preset, lines({**fields, "type": kind}))
    output.encode()
    reason = watch.failure_reason(report_with(0), NOWHERE)
    assert reason is None or reason.encode()


NESTED_IN = (
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": "@"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "@"}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "input": "@"}]}},
    {"type": "system", "subtype": "init", "model": "@"},
    {"type": "result", "subtype": "@"},
    {"type": "result", "subtype": "success", "is_error": True, "result": "@"},
    {"type": "item.completed", "item": {"type": "file_change", "changes": "@"}},
    {"type": "turn.failed", "error": {"message": "@"}},
    {"type": "error", "error": {"a": "@"}},
    {"type": "tool_use", "part": {"tool": "@", "state": {"input": "@", "output": "@"}}},
)


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("opening", ["[", '{"text":', '["y",'])
def test_an_event_of_any_depth_is_read_without_an_error(preset: str, opening: str) -> None:
    closing = "}" if opening.startswith("{") else "]"
    for depth in (*range(100, 900, 100), *range(900, 1000, 3)):
        value = opening * depth + "0" + closing * depth
        for event in NESTED_IN:
            watch, _ = run_with_output(preset, lines(event).replace(b'"@"', value.encode()))
            watch.failure_reason(report_with(0), NOWHERE)


@pytest.mark.parametrize(
    ("events", "exit_code", "failure"),
    [
        ([result()], 0, None),
        ([result(is_error=True, result="API Error: 402")], 0, "API Error: 402"),
        ([result(subtype="error_max_turns", result=None)], 0, "error_max_turns"),
        ([assistant_message("bye")], 0, "ended without a result. Its last lines:\nbye"),
        ([assistant_message("bye")], 1, "exit code 1. Its last lines:\nbye"),
        ([{"type": "result", "subtype": ["odd"], "is_error": 7}], 0, "reported an error"),
    ],
)
def test_the_outcome_of_claude_code_is_its_result(
    events: list[Any], exit_code: int, failure: str | None
) -> None:
    watch, _ = run_with_output("claude-code", lines(*events))
    reason = watch.failure_reason(report_with(exit_code), NOWHERE)
    assert reason == failure if failure is None else failure in str(reason)


@pytest.mark.parametrize(
    ("events", "exit_code", "failure"),
    [
        ([{"type": "turn.completed"}], 0, None),
        ([{"type": "turn.failed", "error": {"message": "402"}}], 1, "reported an error: 402"),
        ([{"type": "turn.failed", "error": 5}], 0, "reported an error"),
        ([{"type": "turn.started"}], 0, "without finishing its turn"),
        ([{"type": "turn.completed"}], 1, "exit code 1"),
    ],
)
def test_the_outcome_of_codex_is_its_last_turn(
    events: list[Any], exit_code: int, failure: str | None
) -> None:
    watch, _ = run_with_output("codex", lines(*events))
    reason = watch.failure_reason(report_with(exit_code), NOWHERE)
    assert reason == failure if failure is None else failure in str(reason)


def test_an_error_of_opencode_is_its_outcome_whatever_the_exit_code() -> None:
    watch, output = run_with_output(
        "opencode", lines({"type": "error", "error": {"data": {"message": "no credit"}}})
    )
    assert output == "! no credit\n"
    assert watch.failure_reason(report_with(0), NOWHERE) == "opencode reported an error: no credit"


@pytest.mark.parametrize(
    ("output", "failure"),
    [
        ("Tokens: 2.9k sent, 19 received. Cost: $0.01\n", None),
        ("litellm.APIError: gone\nTokens: 1 sent, 2 received.\n", None),
        ("Tokens: 1 sent, 2 received.\nlitellm.AuthenticationError: no\n", "AuthenticationError"),
        ("litellm.RateLimitError: slow down", "RateLimitError: slow down"),
        ("nothing to see", "no response from its model"),
    ],
)
def test_the_outcome_of_aider_is_how_its_last_request_ended(
    output: str, failure: str | None
) -> None:
    half = len(output) // 2
    watch, log = run_with_output("aider", output[:half].encode(), output[half:].encode())
    assert log == output
    reason = watch.failure_reason(report_with(0), NOWHERE)
    assert reason == failure if failure is None else failure in str(reason)


@pytest.mark.parametrize(
    ("trajectory", "exit_code", "failure"),
    [
        ({"info": {"exit_status": "Submitted"}}, 0, None),
        ({"info": {"exit_status": "LimitsExceeded"}}, 0, "stopped: LimitsExceeded"),
        ({"info": {"exit_status": "RepeatedFormatError"}}, 0, "stopped: RepeatedFormatError"),
        ({"info": {"exit_status": "BadRequestError"}}, 1, "stopped: BadRequestError"),
        ({"info": {"exit_status": ""}}, 0, "without an exit status"),
        ({"messages": [r'"exit_status": "Submitted"']}, 0, "without an exit status"),
        (None, 1, "exit code 1"),
    ],
)
def test_the_outcome_of_mini_swe_agent_is_in_its_trajectory(
    trajectory: Any, exit_code: int, failure: str | None, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    report.mkdir()
    if trajectory is not None:
        (report / "mini-swe-agent.traj.json").write_text(json.dumps(trajectory, indent=2))
    watch, _ = run_with_output("mini-swe-agent", b"")
    reason = watch.failure_reason(report_with(exit_code), tmp_path)
    assert reason == failure if failure is None else failure in str(reason)


def test_a_trajectory_that_is_a_pipe_or_a_link_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    path = tmp_path / "report" / "mini-swe-agent.traj.json"
    watch, _ = run_with_output("mini-swe-agent", b"")
    os.mkfifo(path)
    assert watch.failure_reason(report_with(0), tmp_path) is not None
    path.unlink()
    outside = tmp_path / "outside"
    outside.write_text('{"exit_status": "Submitted"}')
    path.symlink_to(outside)
    assert watch.failure_reason(report_with(0), tmp_path) is not None
