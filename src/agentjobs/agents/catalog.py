"""The agents this service offers: built in ones and those of `agentjobs.toml`, checked at start."""

import re
from collections.abc import Iterable, Iterator

from agentjobs.agents.builtin_agents import builtin_agents
from agentjobs.agents.definitions import Agent, named_files
from agentjobs.settings import Settings, fault_at
from agentjobs.settings_tables import AgentTable

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_PREFIX = "AGENTJOBS_"


class Catalog:
    def __init__(self, agents: Iterable[Agent]) -> None:
        self._agents = {agent.id: agent for agent in agents}

    def get(self, id: str) -> Agent | None:
        return self._agents.get(id)

    def all(self) -> list[Agent]:
        return list(self._agents.values())


def build_catalog(settings: Settings) -> Catalog:
    """Raises SettingsError; a declared agent with a built-in's id takes its place."""
    _check(settings)
    lowest_plan = settings.plans[0].name
    return Catalog([*builtin_agents(lowest_plan), *map(_agent, settings.agents)])


def _agent(table: AgentTable) -> Agent:
    return Agent(
        id=table.id,
        name=table.name,
        plan_required=table.plan_required,
        command=tuple(table.command),
        timeout_seconds=table.timeout_seconds,
        environment=table.environment,
        network=tuple(table.network),
        read_only=named_files(table.command),
    )


def _check(settings: Settings) -> None:
    plan_names = [plan.name for plan in settings.plans]
    seen: set[str] = set()
    for index, table in enumerate(settings.agents):
        for field, reason in _faults(table, plan_names, seen):
            raise fault_at(settings, f"agents[{index}].{field}", reason)
        seen.add(table.id)


def _faults(table: AgentTable, plan_names: list[str], seen: set[str]) -> Iterator[tuple[str, str]]:
    if table.id in seen:
        yield "id", f"`{table.id}` is declared twice"
    if not _ID.fullmatch(table.id):
        yield "id", "use 1 to 63 of a-z, 0-9 and `-`, and begin with a letter or digit"
    if not table.name.strip():
        yield "name", "must not be empty"
    if table.plan_required not in plan_names:
        yield "plan_required", f"is none of the plans ({', '.join(plan_names)})"
    if not table.command or not table.command[0]:
        yield "command", "must name a program"
    if any("\0" in word for word in table.command):
        yield "command", "must not contain a NUL"
    if table.timeout_seconds <= 0:
        yield "timeout_seconds", "must be above 0"
    for name, value in table.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield "environment", f"{name!r} cannot be an environment variable"
        elif name.startswith(_RESERVED_PREFIX):
            yield "environment", f"`{name}`: names that begin with {_RESERVED_PREFIX} are ours"
    if not all(table.network):
        yield "network", "must not contain an empty host"
