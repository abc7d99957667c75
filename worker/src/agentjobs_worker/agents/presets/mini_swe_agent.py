"""mini-swe-agent: its trajectory has the outcome, because it always exits with 0."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.agents.report import read_head
from agentjobs_runtime.agents.steps import Step, to_duration, to_exit_code, to_state
from agentjobs_runtime.sandboxes.directories import REPORT_DIRECTORY
from agentjobs_worker.agents.presets.event_stream import to_text
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.agents.presets.tool_steps import message_step
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.sandbox.protocol import SandboxReport

TRAJECTORY = "mini-swe-agent.traj.json"
# The outcome comes before the messages, which may be many megabytes.
HEAD_BYTES = 512 * 1024
# The last command only says that the agent is done.
_NOT_EXECUTED = "action was not executed"
# A longer one is not read for its steps: parsing it would block the other threads.
MAX_TRAJECTORY_BYTES = 8 * 1024 * 1024

_SCRIPT = f'exec "$@" --output "${{AGENTJOBS_REPORT%/*}}/{TRAJECTORY}" --task "$AGENTJOBS_PROMPT"'
# A quote inside a JSON string is escaped, so no text can look like this key.
_EXIT_STATUS = re.compile(rb'"exit_status"\s*:\s*"([A-Za-z]*)"')


class _Action(msgspec.Struct, frozen=True):
    command: str
    tool_call_id: str | None = None


class _Extra(msgspec.Struct, frozen=True):
    """A response of the model has `actions`, a command the rest. `timestamp` is in seconds."""

    actions: tuple[_Action, ...] = ()
    timestamp: float | None = None
    returncode: int | None = None
    raw_output: str = ""
    exception_info: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: Any = None
    tool_call_id: str | None = None
    extra: _Extra = _Extra()


class _Trajectory(msgspec.Struct, frozen=True):
    messages: tuple[_Message, ...] = ()


class MiniSweAgentWatcher(RunWatcher):
    def steps_left_in(self, run_dir: Path) -> Iterator[Step]:
        path = run_dir / REPORT_DIRECTORY / TRAJECTORY
        content = read_head(path, MAX_TRAJECTORY_BYTES + 1) or b""
        if len(content) <= MAX_TRAJECTORY_BYTES:
            with contextlib.suppress(msgspec.MsgspecError, RecursionError, ValueError):
                yield from _read_steps(msgspec.json.decode(content, type=_Trajectory).messages)

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        status = _exit_status(run_dir)
        if status == "Submitted":
            return None
        if status:
            return self.with_last_lines(f"mini-swe-agent stopped: {status}.", report)
        return super().failure_reason(report, run_dir) or self.with_last_lines(
            "mini-swe-agent ended without an exit status.", report
        )


def _read_steps(messages: Sequence[_Message]) -> Iterator[Step]:
    outputs = {
        message.tool_call_id: message.extra for message in messages if message.role == "tool"
    }
    for message in messages:
        if message.role != "assistant":
            continue
        asked_at = _milliseconds(message.extra.timestamp)
        if text := to_text(message.content):
            yield msgspec.structs.replace(message_step(text), started_at=asked_at)
        for action in message.extra.actions:
            output = outputs.get(action.tool_call_id, _Extra())
            if output.exception_info != _NOT_EXECUTED:
                is_alone = len(message.extra.actions) == 1
                ended_at = _milliseconds(output.timestamp) if is_alone else None
                yield _command(action, output, asked_at, ended_at)


def _command(action: _Action, output: _Extra, started_at: int | None, ended_at: int | None) -> Step:
    return Step(
        kind="command",
        title=action.command,
        detail=output.raw_output,
        state=to_state(failed=output.returncode not in (0, None)),
        exit_code=to_exit_code(output.returncode),
        started_at=started_at,
        duration_ms=to_duration(started_at, ended_at),
    )


def _milliseconds(seconds: float | None) -> int | None:
    return int(seconds * 1_000) if seconds is not None and 0 <= seconds < 10**11 else None


def _exit_status(run_dir: Path) -> str:
    head = read_head(run_dir / REPORT_DIRECTORY / TRAJECTORY, HEAD_BYTES) or b""
    match = _EXIT_STATUS.search(head)
    return match[1].decode() if match else ""


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("--yolo", "--exit-immediately"),
        # The gateway enforces the budget with the operator's prices.
        *("--cost-limit", "0"),
        *("--model", f"{model.api}/{model.name}"),
    )


MINI_SWE_AGENT = Preset(
    id="mini-swe-agent",
    name="mini-swe-agent",
    description="Solves an issue with shell commands alone, with mini-swe-agent.",
    executable="mini",
    # litellm needs this extra for requests with tools, although it is not documented.
    install_with="uv tool install mini-swe-agent --with 'litellm[mcp]'",
    min_version="2.0.0",
    distribution="mini-swe-agent",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    script=_SCRIPT,
    environment={
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        # Half a minute: it also retries permanent errors.
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "6",
        "MSWEA_SILENT_STARTUP": "1",
        "PYTHONUNBUFFERED": "1",
        "TYPER_STANDARD_TRACEBACK": "1",
    },
    watcher=MiniSweAgentWatcher,
)
