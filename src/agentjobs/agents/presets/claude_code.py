"""Claude Code, run with `--print`: its last event tells the outcome, its exit code does not."""

from pathlib import Path

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.presets.event_stream import (
    Event,
    EventWatch,
    indented,
    object_at,
    objects_in,
    shortened,
    text_of,
)
from agentjobs.agents.presets.preset import Preset
from agentjobs.sandbox.protocol import SandboxReport

# A repository's settings hold variables too; these come before them.
_SCRIPT = (
    'exec "$@" --settings "{\\"disableAllHooks\\":true,\\"env\\":{'
    '\\"ANTHROPIC_BASE_URL\\":\\"$ANTHROPIC_BASE_URL\\",'
    '\\"ANTHROPIC_API_KEY\\":\\"$ANTHROPIC_API_KEY\\"}}" -- "$AGENTJOBS_PROMPT"'
)


class ClaudeCodeWatch(EventWatch):
    def __init__(self) -> None:
        super().__init__()
        self._result: Event | None = None

    def shown(self, event: Event) -> str:
        kind = event["type"]
        if kind == "result":
            self._result = event
            return ""
        if kind == "system":
            return _shown_system(event)
        if kind in ("assistant", "user"):
            blocks = objects_in(object_at(event, "message").get("content"))
            return "\n".join(filter(None, map(_shown_block, blocks)))
        return ""

    def why_it_failed(self, report: SandboxReport, run_dir: Path) -> str | None:
        result = self._result
        if result is None:
            return super().why_it_failed(report, run_dir) or self.with_last_lines(
                "Claude Code ended without a result.", report
            )
        subtype = result.get("subtype")
        if result.get("is_error") or subtype != "success":
            said = map(text_of, (result.get("result"), result.get("errors"), subtype))
            reason = next(filter(None, said), "it did not say which")
            return f"Claude Code reported an error: {shortened(reason)}"
        return None


def _shown_system(event: Event) -> str:
    match event.get("subtype"):
        case "init":
            return f"Claude Code {event.get('claude_code_version')}, model {event.get('model')}"
        case "api_retry":
            return f"! the model does not answer, attempt {event.get('attempt')}"
        case _:
            return ""


def _shown_block(block: Event) -> str:
    match block.get("type"):
        case "text":
            return text_of(block)
        case "tool_use":
            return f"> {block.get('name')} {shortened(block.get('input'))}"
        case "tool_result":
            return indented(shortened(text_of(block.get("content"))))
        case _:
            return ""


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("--print", "--verbose", "--output-format", "stream-json"),
        # The sandbox around it decides what it may do; nobody is there to be asked.
        "--dangerously-skip-permissions",
        # A repository's own guidance is read, its hooks and servers are not started.
        *("--setting-sources", "user,project", "--strict-mcp-config", "--no-session-persistence"),
        *("--disallowedTools", "WebSearch,WebFetch"),
        *(("--model", model.name) if model.name else ()),
    )


CLAUDE_CODE = Preset(
    id="claude-code",
    name="Claude Code",
    executable="claude",
    install_with="npm install -g @anthropic-ai/claude-code",
    oldest_version="2.0.0",
    apis=("anthropic",),
    has_default_model=True,
    arguments=_arguments,
    script=_SCRIPT,
    environment={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        # Without it, it refuses to work for root, which it may be where no sandbox is used.
        "IS_SANDBOX": "1",
    },
    watch=ClaudeCodeWatch,
)
