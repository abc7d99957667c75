"""opencode, run with `opencode run`: a printed error is its outcome."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.agents.steps import Step, to_duration, to_exit_code, to_state
from agentjobs_worker.agents.presets.event_stream import (
    Event,
    EventWatcher,
    object_at,
    to_text,
    truncate,
)
from agentjobs_worker.agents.presets.preset import PROVIDER_URLS, Preset
from agentjobs_worker.agents.presets.tool_steps import message_step, tool_step
from agentjobs_worker.sandbox.protocol import SandboxReport

_PACKAGES = {
    "anthropic": "@ai-sdk/anthropic",
    "anthropic-compatible": "@ai-sdk/anthropic",
    "openai": "@ai-sdk/openai",
    "openai-compatible": "@ai-sdk/openai-compatible",
}


class OpencodeWatcher(EventWatcher):
    def __init__(self) -> None:
        super().__init__()
        self._failure: str | None = None

    def note(self, event: Event) -> str:
        if event["type"] != "error":
            return ""
        self._failure = _message(object_at(event, "error"))
        return f"! {self._failure}"

    def read_steps(self, event: Event) -> Iterator[Step]:
        part = object_at(event, "part")
        match event["type"]:
            case "text":
                yield message_step(to_text(part))
            case "tool_use":
                yield _tool_step(to_text(part.get("tool")), object_at(part, "state"))

    def failure_reason(self, report: SandboxReport, run_dir: Path) -> str | None:
        if self._failure is not None:
            return f"opencode reported an error: {self._failure}"
        return super().failure_reason(report, run_dir)


def _tool_step(tool: str, state: Event) -> Step:
    """The step for a call that has ended: opencode reports no others."""
    step, metadata, time = (
        tool_step(tool, object_at(state, "input")),
        object_at(state, "metadata"),
        object_at(state, "time"),
    )
    error, exit_code = to_text(state.get("error")), to_exit_code(metadata.get("exit"))
    failed = state.get("status") == "error" or bool(exit_code)
    output = error or to_text(metadata.get("diff")) or step.detail or to_text(state.get("output"))
    return msgspec.structs.replace(
        step,
        detail=output,
        state=to_state(failed=failed),
        exit_code=exit_code,
        duration_ms=to_duration(time.get("start"), time.get("end")),
    )


def _message(error: Event) -> str:
    message = to_text(object_at(error, "data").get("message")) or to_text(error.get("name"))
    return truncate(message or error)


def _arguments(model: ModelAccess) -> tuple[str, ...]:
    # With a given title, it does not ask the model for one.
    title = ("--title", "agentjobs")
    return ("run", "--format", "json", "--auto", "--pure", *title, "--model", _full_name(model))


def _full_name(model: ModelAccess) -> str:
    return f"{_provider(model)}/{model.name}"


def _provider(model: ModelAccess) -> str:
    """Its `openai` uses the responses API, which only the provider itself is sure to have."""
    return model.api if model.url == PROVIDER_URLS[model.api] else f"{model.api}-compatible"


def _configuration(model: ModelAccess) -> str:
    provider = {
        "npm": _PACKAGES[_provider(model)],
        "options": {
            "baseURL": "{env:AGENTJOBS_V1_URL}",
            "apiKey": "{env:AGENTJOBS_MODEL_KEY}",
        },
        "models": {model.name: {}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "small_model": _full_name(model),
        "enabled_providers": [_provider(model)],
        "provider": {_provider(model): provider},
        "permission": {"webfetch": "deny", "websearch": "deny"},
    }
    return msgspec.json.encode(settings).decode()


def _model_environment(model: ModelAccess) -> Mapping[str, str]:
    return {
        "AGENTJOBS_MODEL_KEY": "{token}",
        "AGENTJOBS_V1_URL": "http://{address}/v1",
        "OPENCODE_CONFIG_CONTENT": _configuration(model),
    }


OPENCODE = Preset(
    id="opencode",
    name="opencode",
    description="Works on any task in the repository, with opencode and the model of your choice.",
    executable="opencode",
    install_with="npm install -g opencode-ai",
    min_version="1.0.0",
    apis=("anthropic", "openai"),
    arguments=_arguments,
    environment={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    },
    model_environment=_model_environment,
    watcher=OpencodeWatcher,
)
