"""The environment variables that point an agent's client at the model gateway."""

from collections.abc import Mapping

from agentjobs_runtime.agents.definitions import Agent, ModelAccess
from agentjobs_runtime.upstream import Api
from agentjobs_worker.agents.presets.all_presets import PRESETS

GATEWAY_PORT = 8462
DEFAULT_SECRETS: Mapping[Api, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
}

# The variables of the official clients; Anthropic's adds /v1 itself, OpenAI's does not.
_BASE_URLS: Mapping[Api, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "http://{address}"),
    "openai": ("OPENAI_BASE_URL", "http://{address}/v1"),
}


def model_environment_names(api: Api) -> tuple[str, str]:
    """The variables that the gateway sets, so that no definition may set them."""
    return (_BASE_URLS[api][0], DEFAULT_SECRETS[api])


def model_environment(agent: Agent, model: ModelAccess, token: str) -> dict[str, str]:
    """The variables of the gateway's port; the sandbox fills in `{address}`."""
    name, url = _BASE_URLS[model.api]
    variables = {
        name: url,
        DEFAULT_SECRETS[model.api]: "{token}",
        "AGENTJOBS_MODEL": model.name,
        "AGENTJOBS_MODEL_URL": url,
    }
    if agent.preset is not None:
        variables |= PRESETS[agent.preset].model_environment(model)
    return {name: value.replace("{token}", token) for name, value in variables.items()}
