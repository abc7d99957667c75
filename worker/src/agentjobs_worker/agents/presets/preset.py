"""What the service needs to know about a coding agent to run it non-interactively."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentjobs_runtime.agents.definitions import ModelAccess
from agentjobs_runtime.upstream import Api
from agentjobs_worker.agents.run_watcher import RunWatcher

PROVIDER_URLS: Mapping[Api, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
}
# `exec` replaces the shell, and after `--` a prompt is not parsed as a flag.
PROMPT_AS_ARGUMENT = 'exec "$@" -- "$AGENTJOBS_PROMPT"'


def no_variables(model: ModelAccess) -> Mapping[str, str]:  # noqa: ARG001 - required by the type
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`arguments` follow the program; `script` is the shell command that runs them as "$@".

    `distribution` names the Python package whose metadata has the version; without one, the
    program is run with `--version`. `model_environment` extends the usual variables of the API;
    `{address}` and `{token}` in it are the gateway's.
    """

    id: str
    name: str
    description: str
    executable: str
    install_with: str
    min_version: str
    # The first is the default.
    apis: tuple[Api, ...]
    arguments: Callable[[ModelAccess], tuple[str, ...]]
    script: str = PROMPT_AS_ARGUMENT
    distribution: str = ""
    has_default_model: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    model_environment: Callable[[ModelAccess], Mapping[str, str]] = no_variables
    watcher: Callable[[], RunWatcher] = RunWatcher

    def command(
        self, program: tuple[str, ...], model: ModelAccess, extra: tuple[str, ...]
    ) -> tuple[str, ...]:
        """`extra` are the operator's arguments, which come last so that they take precedence."""
        return ("sh", "-c", self.script, "agentjobs", *program, *self.arguments(model), *extra)
