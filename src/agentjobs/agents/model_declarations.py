"""The model an agent's declaration asks for: its API, address, names and secret."""

import re
from collections.abc import Iterator
from typing import get_args
from urllib.parse import urlsplit

from agentjobs.agents.definitions import ModelAccess
from agentjobs.agents.model_access import (
    DEFAULT_SECRETS,
    model_environment_names,
)
from agentjobs.agents.presets.preset import PROVIDER_URLS, Preset
from agentjobs.gateway.upstream import Api, names
from agentjobs.organizations.secrets import is_secret_name
from agentjobs.settings.tables import AgentTable

# Names reach shell lines and other programs' settings, where a quote would end something.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_MODEL_PATTERN = re.compile(r"[A-Za-z0-9._:/@+*-]{1,200}")


def model_of(table: AgentTable, preset: Preset | None) -> ModelAccess | None:
    """None for an agent that calls no model. Expects a table without faults."""
    api = _api(table, preset)
    if api is None:
        return None
    return ModelAccess(
        api=api,
        url=_base_url(table.model_url) or PROVIDER_URLS[api],
        secret=table.secret or DEFAULT_SECRETS[api],
        name=table.model,
        names=tuple(table.models) or ("*",),
    )


def model_faults(table: AgentTable, preset: Preset | None) -> Iterator[tuple[str, str]]:
    allowed = preset.apis if preset else get_args(Api)
    if table.model_api and table.model_api not in allowed:
        yield "model_api", f"must be one of: {', '.join(allowed)}"
        return
    api = _api(table, preset)
    if api is None:
        for field in ("model_url", "model", "models", "secret"):
            if getattr(table, field):
                yield field, "has no meaning without `model_api`"
        return
    yield from _name_faults(table, preset)
    if table.model_url and not _is_url(table.model_url):
        yield "model_url", "must be an http:// or https:// address, without user, query or fragment"
    if table.secret and not is_secret_name(table.secret):
        yield "secret", "must be the name of a secret: letters, digits and `_`, no digit first"
    for name in model_environment_names(api):
        if name in table.environment:
            yield (
                "environment",
                f"`{name}` is the gateway's: store the key with `agentjobs secrets set {name}`",
            )


def _name_faults(table: AgentTable, preset: Preset | None) -> Iterator[tuple[str, str]]:
    if preset is not None and not table.model and not preset.has_default_model:
        yield "model", f"must name a model: {preset.name} has none of its own"
    if table.model and not _MODEL.fullmatch(table.model):
        yield "model", "must be the name of a model as its API knows it"
    if not all(_MODEL_PATTERN.fullmatch(pattern) for pattern in table.models):
        yield "models", "must be names of models, in which `*` stands for anything"
    elif table.model and not any(names(each, table.model) for each in table.models or ["*"]):
        yield "models", f"must allow `{table.model}`, the agent's own model"


def _api(table: AgentTable, preset: Preset | None) -> Api | None:
    known = {str(api): api for api in get_args(Api)}
    named: Api | None = known.get(table.model_api)
    return named or (preset.apis[0] if preset else None)


def _base_url(url: str) -> str:
    """Providers are often written with the /v1 that their clients' requests begin with."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain and has_port
