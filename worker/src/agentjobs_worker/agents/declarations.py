"""Agents as declared in `agentjobs.toml`: validates a declaration and builds the agent."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import get_args
from urllib.parse import urlsplit

from agentjobs_runtime.agents.definitions import (
    CVE_FIXER,
    Agent,
    ModelAccess,
    ResultKind,
    named_files,
)
from agentjobs_runtime.identifiers import is_secret_name
from agentjobs_runtime.outbound.guard.host_patterns import parse_pattern
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_runtime.settings import BOUNDS, Settings
from agentjobs_runtime.settings.kubernetes_checks import is_subdomain, label_fault, toleration_fault
from agentjobs_runtime.settings.tables import AgentTable
from agentjobs_runtime.settings.tags import tags_fault
from agentjobs_runtime.upstream import Api, matches_model
from agentjobs_worker.agents.model_access import DEFAULT_SECRETS, model_environment_names
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.agents.presets.preset import PROVIDER_URLS, Preset
from agentjobs_worker.agents.result import load_schema

Fault = tuple[str, str]

is_agent_id = re.compile(r"[a-z0-9][a-z0-9-]{0,62}").fullmatch
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_PREFIX = "AGENTJOBS_"
# Names are used in shell commands and other programs' settings, so no quotes.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_MODEL_PATTERN = re.compile(r"[A-Za-z0-9._:/@+*-]{1,200}")
_MIB = 1024 * 1024
_MAX_DESCRIPTION = 500
# The keys of an agent's `limits`: the field each sets, and its unit.
_LIMITS: Mapping[str, tuple[str, int]] = {
    "memory_mib": ("memory_bytes", _MIB),
    "processes": ("processes", 1),
    "file_mib": ("file_bytes", _MIB),
    "scratch_mib": ("scratch_bytes", _MIB),
    "workspace_mib": ("workspace_bytes", _MIB),
    "cpu_seconds": ("cpu_seconds", 1),
    "cpus": ("cpus", 1),
}
_FRACTIONAL_LIMITS = ("cpus",)


def agent_id(table: AgentTable) -> str:
    return table.id or table.preset


def build_agent(table: AgentTable, settings: Settings) -> Agent:
    preset = PRESETS.get(table.preset)
    return Agent(
        id=agent_id(table),
        name=table.name or (preset.name if preset else ""),
        plan_required=table.plan_required,
        command=tuple(table.command),
        timeout_seconds=table.timeout_seconds,
        description=table.description or (preset.description if preset else ""),
        tags=tuple(table.tags),
        max_concurrent_jobs=table.max_concurrent_jobs,
        environment={**(preset.environment if preset else {}), **table.environment},
        network=tuple(table.network),
        read_only=named_files(table.command),
        limits=agent_limits(settings, table.limits),
        model=build_model_access(table, preset),
        max_cost_usd=table.max_cost_usd,
        verify=tuple(table.verify),
        verify_files=named_files(table.verify),
        on_verify_failure="fail" if table.on_verify_failure == "fail" else "draft",
        result="report" if table.result == "report" else "pull_request",
        result_schema=load_schema(table.result_schema),
        preset=table.preset or None,
        executable=table.executable,
        arguments=tuple(table.arguments),
        placement=Placement(
            runtime_class=table.runtime_class,
            node_selector=table.node_selector,
            tolerations=tuple(table.tolerations),
        ),
    )


def agent_limits(settings: Settings, overrides: Mapping[str, int | float]) -> Limits:
    """The service's limits, overridden by the agent's own."""
    values = {name: overrides.get(name, getattr(settings, f"limit_{name}")) for name in _LIMITS}
    return Limits(**{_LIMITS[name][0]: value * _LIMITS[name][1] for name, value in values.items()})


def find_faults(table: AgentTable, plan_names: list[str]) -> Iterator[Fault]:
    yield from _identity_faults(table, plan_names)
    yield from _program_faults(table)
    yield from _bounds_faults(table)
    yield from _placement_faults(table)
    yield from _environment_faults(table)
    yield from _verify_faults(table)
    yield from _result_faults(table)
    yield from model_faults(table, PRESETS.get(table.preset))


def _identity_faults(table: AgentTable, plan_names: list[str]) -> Iterator[Fault]:
    if table.preset and table.preset not in PRESETS:
        yield "preset", f"must be one of the presets ({', '.join(PRESETS)})"
    if not is_agent_id(agent_id(table)):
        yield "id", "must have 1 to 63 characters (a-z, 0-9, `-`) and start with a letter or digit"
    if not table.name.strip() and (table.name or not table.preset):
        yield "name", "must not be empty"
    if len(table.description) > _MAX_DESCRIPTION or not table.description.isprintable():
        yield "description", f"must be one line of at most {_MAX_DESCRIPTION} printable characters"
    if table.plan_required not in plan_names:
        yield "plan_required", f"must be one of the plans ({', '.join(plan_names)})"
    if fault := tags_fault(table.tags):
        yield "tags", fault


def _program_faults(table: AgentTable) -> Iterator[Fault]:
    if table.preset:
        if table.command:
            yield "command", "is set by the preset: use `executable` and `arguments`"
        if table.executable and not table.executable.startswith("/"):
            yield "executable", "must be the absolute path of the program"
    else:
        if not table.command or not table.command[0]:
            yield "command", "must name a program, unless `preset` is set"
        for field in ("executable", "arguments"):
            if getattr(table, field):
                yield field, "only applies to a preset: use `command`"
    for field in ("command", "arguments"):
        if any("\0" in word for word in getattr(table, field)):
            yield field, "must not contain a NUL"


def _bounds_faults(table: AgentTable) -> Iterator[Fault]:
    if table.timeout_seconds <= 0:
        yield "timeout_seconds", "must be above 0"
    if table.max_concurrent_jobs is not None and table.max_concurrent_jobs < 1:
        yield "max_concurrent_jobs", "must be at least 1"
    for name, value in table.limits.items():
        if name not in _LIMITS:
            yield "limits", f"`{name}` must be one of the limits ({', '.join(_LIMITS)})"
            continue
        minimum, maximum = BOUNDS[f"limit_{name}"]
        if isinstance(value, float) and name not in _FRACTIONAL_LIMITS:
            yield "limits", f"`{name}` must be a whole number"
        elif not minimum <= value <= maximum:
            yield "limits", f"`{name}` must be between {minimum} and {maximum}"
    if table.max_cost_usd is not None and not 0 < table.max_cost_usd < math.inf:
        yield "max_cost_usd", "must be above 0"
    yield from _network_faults(table)


def _placement_faults(table: AgentTable) -> Iterator[Fault]:
    if table.runtime_class and not is_subdomain(table.runtime_class):
        yield "runtime_class", "must be the name of a runtime class"
    for key, value in table.node_selector.items():
        if fault := label_fault(key, value):
            yield "node_selector", fault
    if fault := toleration_fault(table.tolerations):
        yield "tolerations", fault


def _network_faults(table: AgentTable) -> Iterator[Fault]:
    for text in table.network:
        try:
            parse_pattern(text)
        except ValueError as error:
            yield "network", str(error)


def _environment_faults(table: AgentTable) -> Iterator[Fault]:
    for name, value in table.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield "environment", f"{name!r} is not a valid environment variable"
        elif name.startswith(_RESERVED_PREFIX):
            yield "environment", f"`{name}`: names that start with {_RESERVED_PREFIX} are reserved"


def _verify_faults(table: AgentTable) -> Iterator[Fault]:
    if table.verify and (not table.verify[0] or any("\0" in word for word in table.verify)):
        yield "verify", "must name a program and its arguments, without a NUL"
    if table.on_verify_failure not in ("draft", "fail"):
        yield "on_verify_failure", "must be `draft` or `fail`"


def _result_faults(table: AgentTable) -> Iterator[Fault]:
    if table.result not in get_args(ResultKind):
        yield "result", f"must be one of: {', '.join(get_args(ResultKind))}"
    elif table.result == "report":
        if agent_id(table) == CVE_FIXER:
            yield "result", f"`{CVE_FIXER}` must open pull requests: vulnerabilities start it"
        if table.verify:
            yield "verify", "has no meaning for a report: there is no change to verify"
    elif table.result_schema != "":
        yield "result_schema", 'only applies to `result = "report"`'
    try:
        load_schema(table.result_schema)
    except ValueError as error:
        yield "result_schema", str(error)


def build_model_access(table: AgentTable, preset: Preset | None) -> ModelAccess | None:
    """None for an agent that calls no model. Expects a valid table."""
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


def model_faults(table: AgentTable, preset: Preset | None) -> Iterator[Fault]:
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
                f"`{name}` is set by the gateway: store it with `agentjobs secrets set {name}`",
            )


def _name_faults(table: AgentTable, preset: Preset | None) -> Iterator[Fault]:
    if preset is not None and not table.model and not preset.has_default_model:
        yield "model", f"must name a model: {preset.name} has no default"
    if table.model and not _MODEL.fullmatch(table.model):
        yield "model", "must be the name of a model of its API"
    if not all(_MODEL_PATTERN.fullmatch(pattern) for pattern in table.models):
        yield "models", "must be names of models, where `*` matches anything"
    elif table.model and not any(
        matches_model(pattern, table.model) for pattern in table.models or ["*"]
    ):
        yield "models", f"must allow `{table.model}`, the agent's own model"


def _api(table: AgentTable, preset: Preset | None) -> Api | None:
    apis = {str(api): api for api in get_args(Api)}
    declared: Api | None = apis.get(table.model_api)
    return declared or (preset.apis[0] if preset else None)


def _base_url(url: str) -> str:
    """Provider addresses are often given with the /v1 that clients' requests start with."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain and has_port
