"""The agents this service offers: built in ones and those of `agentjobs.toml`, checked at start."""

from collections.abc import Iterable

from agentjobs.agents.builtin_agents import builtin_agents
from agentjobs.agents.declarations import agent_of, faults_in, id_of, limits_of
from agentjobs.agents.definitions import Agent
from agentjobs.settings import Settings, fault_at


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
    built_in = builtin_agents(settings, limits_of(settings, {}))
    return Catalog([*built_in, *(agent_of(table, settings) for table in settings.agents)])


def _check(settings: Settings) -> None:
    plan_names = [plan.name for plan in settings.plans]
    seen: set[str] = set()
    for index, table in enumerate(settings.agents):
        for field, reason in faults_in(table, plan_names):
            raise fault_at(settings, f"agents[{index}].{field}", reason)
        if id_of(table) in seen:
            raise fault_at(settings, f"agents[{index}].id", f"`{id_of(table)}` is declared twice")
        seen.add(id_of(table))
