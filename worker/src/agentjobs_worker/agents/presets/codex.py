"""Codex, run with `codex exec`: its last turn has the outcome."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.agents.steps import Step, StepState, to_exit_code
from agentjobs_worker.agents.presets.event_stream import (
    Event,
    EventWatcher,
    object_at,
    objects_in,
    to_text,
    truncate,
)
from agentjobs_worker.agents.presets.preset import Preset
from agentjobs_worker.agents.presets.tool_steps import message_step, relative_path, unwrap_script
from agentjobs_worker.sandbox.protocol import SandboxReport

# A custom provider; the gateway's address is known only inside the sandbox.
_SCRIPT = (
    'exec "$@" -c "model_providers.agentjobs.base_url=\\"$OPENAI_BASE_URL\\""'
    ' -- "$AGENTJOBS_PROMPT"'
)
_PROVIDER = (
    'model_provider="agentjobs"',
    'model_providers.agentjobs.name="agentjobs"',
    'model_providers.agentjobs.env_key="OPENAI_API_KEY"',
    'model_providers.agentjobs.wire_api="responses"',
    "model_providers.agentjobs.request_max_retries=4",
    "model_providers.agentjobs.stream_max_retries=2",
)
_QUIET = (
    'web_search="disabled"',
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    'history.persistence="none"',
)


_CHANGES = {"add": " (new)", "delete": " (deleted)"}
_STATES: Mapping[str, StepState] = {"in_progress": "running", "failed": "failed"}


class CodexWatcher(EventWatcher):
    def __init__(self) -> None:
        super().__init__()
        self._failure: str | None = None
        self._has_completed = False

    def note(self, event: Event) -> str:
        item = object_at(event, "item")
        match event["type"], item.get("type"):
            case "turn.completed", _:
                self._has_completed = True
            case "turn.failed", _:
                self._failure = to_text(object_at(event, "error").get("message"))
            case "error", _:
                return f"! {truncate(to_text(event.get('message')))}"
            case "item.completed", "error":
                return f"! {truncate(to_text(item.get('message')))}"
            case "item.completed", "reasoning":
                return to_text(item)
        return ""

    def read_steps(self, event: Event) -> Iterator[Step]:
        if event["type"] in ("item.started", "item.completed"):
            yield from _steps_of_item(object_at(event, "item"))

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        if self._failure is not None:
            return f"Codex reported an error: {truncate(self._failure)}"
        if report.exit_code == 0 and self._has_completed:
            return None
        return super().failure_reason(report, run_dir) or self.with_last_lines(
            "Codex ended without finishing its turn.", report
        )


def _steps_of_item(item: Event) -> Iterator[Step]:
    key, state = to_text(item.get("id")), _STATES.get(to_text(item.get("status")), "succeeded")
    match item.get("type"):
        case "agent_message" if to_text(item):
            yield message_step(to_text(item))
        case "command_execution":
            yield Step(
                kind="command",
                title=unwrap_script(to_text(item.get("command"))),
                detail=to_text(item.get("aggregated_output")),
                state=state,
                key=key,
                exit_code=to_exit_code(item.get("exit_code")),
            )
        case "file_change":
            for index, change in enumerate(objects_in(item.get("changes"))):
                note = _CHANGES.get(to_text(change.get("kind")), "")
                title = f"{relative_path(to_text(change.get('path')))}{note}"
                yield Step(kind="change", title=title, state=state, key=f"{key} {index}")
        case "mcp_tool_call" | "web_search" as kind:
            names = (to_text(item.get(name)) for name in ("server", "tool", "query"))
            yield Step(title=" ".join(filter(None, (kind, *names))), state=state, key=key)


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    return (
        *("exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-rules"),
        # The sandbox limits what it may do; its own sandbox cannot be nested inside.
        "--dangerously-bypass-approvals-and-sandbox",
        *(argument for setting in (*_PROVIDER, *_QUIET) for argument in ("-c", setting)),
        *(("--model", model.name) if model.name else ()),
    )


CODEX = Preset(
    id="codex",
    name="Codex",
    description="Works on any task in the repository, with OpenAI's Codex.",
    executable="codex",
    install_with="npm install -g @openai/codex",
    min_version="0.100.0",
    apis=("openai",),
    has_default_model=True,
    arguments=_arguments,
    script=_SCRIPT,
    watcher=CodexWatcher,
)
