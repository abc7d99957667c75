"""Claude Code, run with `--print`: its last event has the outcome, its exit code does not."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.agents.steps import Step, to_state
from agentjobs_worker.agents.presets.event_stream import (
    Event,
    EventWatcher,
    object_at,
    objects_in,
    to_text,
    truncate,
)
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.agents.presets.tool_steps import message_step, tool_step
from agentjobs_worker.sandbox.protocol import SandboxReport

# A repository's settings may set variables too; these take precedence.
_SCRIPT = (
    'exec "$@" --settings "{\\"disableAllHooks\\":true,\\"env\\":{'
    '\\"ANTHROPIC_BASE_URL\\":\\"$ANTHROPIC_BASE_URL\\",'
    '\\"ANTHROPIC_API_KEY\\":\\"$ANTHROPIC_API_KEY\\"}}" -- "$AGENTJOBS_PROMPT"'
)


# It tells the exit code of a command only in the text about a failure.
_EXIT_CODE = re.compile(r"Exit code (\d{1,3})\n")


class ClaudeCodeWatcher(EventWatcher):
    def __init__(self) -> None:
        super().__init__()
        self._result: Event | None = None

    def note(self, event: Event) -> str:
        match event["type"], event.get("subtype"):
            case "result", _:
                self._result = event
            case "system", "init":
                names = ("claude_code_version", "model")
                version, model = (to_text(event.get(name)) for name in names)
                return f"Claude Code {version}, model {model}"
            case "system", "api_retry":
                return f"! the model does not respond, attempt {truncate(event.get('attempt'))}"
        return ""

    def read_steps(self, event: Event) -> Iterator[Step]:
        if event["type"] in ("assistant", "user"):
            for block in objects_in(object_at(event, "message").get("content")):
                yield from _steps_of_block(block)

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        result = self._result
        if result is None:
            return super().failure_reason(report, run_dir) or self.with_last_lines(
                "Claude Code ended without a result.", report
            )
        subtype = result.get("subtype")
        if result.get("is_error") or subtype != "success":
            reasons = map(to_text, (result.get("result"), result.get("errors"), subtype))
            reason = next(filter(None, reasons), "it gave no reason")
            return f"Claude Code reported an error: {truncate(reason)}"
        return None


def _steps_of_block(block: Event) -> Iterator[Step]:
    match block.get("type"):
        case "text":
            yield message_step(to_text(block))
        case "tool_use":
            step = tool_step(to_text(block.get("name")), object_at(block, "input"))
            yield msgspec.structs.replace(step, state="running", key=to_text(block.get("id")))
        case "tool_result":
            output, failed = to_text(block.get("content")), block.get("is_error") is True
            code = _EXIT_CODE.match(output) if failed else None
            yield Step(
                key=to_text(block.get("tool_use_id")),
                detail=output[code.end() :] if code else output,
                state=to_state(failed=failed),
                exit_code=int(code[1]) if code else None,
            )


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("--print", "--verbose", "--output-format", "stream-json"),
        # The sandbox limits what it may do, and no user is there to answer prompts.
        "--dangerously-skip-permissions",
        # Reads the repository's guidance but does not start its hooks and servers.
        *("--setting-sources", "user,project", "--strict-mcp-config", "--no-session-persistence"),
        *("--disallowedTools", "WebSearch,WebFetch"),
        *(("--model", model.name) if model.name else ()),
    )


CLAUDE_CODE = Preset(
    id="claude-code",
    name="Claude Code",
    description="Works on any task in the repository, with Anthropic's Claude Code.",
    executable="claude",
    install_with="npm install -g @anthropic-ai/claude-code",
    min_version="2.0.0",
    apis=("anthropic",),
    has_default_model=True,
    arguments=_arguments,
    script=_SCRIPT,
    environment={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        # Otherwise it refuses to run as root, which it may be without a sandbox.
        "IS_SANDBOX": "1",
    },
    watcher=ClaudeCodeWatcher,
)
