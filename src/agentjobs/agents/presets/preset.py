"""What the service has to know about a coding agent's command line to run it without a person."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.run_watcher import Watch
from agentjobs.gateway.upstream import Api

PROVIDER_URLS: Mapping[Api, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
}
# `exec` leaves no shell behind, and after `--` no prompt is taken for a flag.
PROMPT_AS_ARGUMENT = 'exec "$@" -- "$AGENTJOBS_PROMPT"'


def no_variables(model: ModelAccess) -> Mapping[str, str]:  # noqa: ARG001 - the form of its kind
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`arguments` follow the program; `script` is the shell line that starts them as "$@".

    `distribution` names the Python package whose metadata hold the version; without one the
    program is asked with `--version`. `model_environment` comes on top of the usual variables of
    the API; `{address}` and `{token}` in it are the gateway's.
    """

    id: str
    name: str
    executable: str
    install_with: str
    oldest_version: str
    # The first is meant where a definition names none.
    apis: tuple[Api, ...]
    arguments: Callable[[ModelAccess], tuple[str, ...]]
    script: str = PROMPT_AS_ARGUMENT
    distribution: str = ""
    has_default_model: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    model_environment: Callable[[ModelAccess], Mapping[str, str]] = no_variables
    watch: Callable[[], Watch] = Watch

    def command(
        self, program: tuple[str, ...], model: ModelAccess, extra: tuple[str, ...]
    ) -> tuple[str, ...]:
        """`extra` are the operator's own arguments, after the preset's so that they win."""
        return ("sh", "-c", self.script, "agentjobs", *program, *self.arguments(model), *extra)
