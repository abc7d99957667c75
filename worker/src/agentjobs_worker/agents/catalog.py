"""The agents this service offers: built-in ones and those in `agentjobs.toml`."""

from collections.abc import Iterable

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.settings import Settings, fault_at
from agentjobs_worker.agents.builtin_agents import builtin_agents
from agentjobs_worker.agents.declarations import agent_id, agent_limits, build_agent, find_faults


class Catalog:
    def __init__(self, agents: Iterable[Agent]) -> None:
        self._agents = {agent.id: agent for agent in agents}

    def get(self, id: str) -> Agent | None:
        return self._agents.get(id)

    def all(self) -> list[Agent]:
        return list(self._agents.values())


def build_catalog(settings: Settings) -> Catalog:
    """Raises SettingsError. A declared agent replaces a built-in one with the same id."""
    _check(settings)
    built_in = builtin_agents(settings, agent_limits(settings, {}))
    return Catalog([*built_in, *(build_agent(table, settings) for table in settings.agents)])


def _check(settings: Settings) -> None:
    plan_names = [plan.name for plan in settings.plans]
    declared_ids: set[str] = set()
    for index, table in enumerate(settings.agents):
        for field, reason in find_faults(table, plan_names):
            raise fault_at(settings, f"agents[{index}].{field}", reason)
        if agent_id(table) in declared_ids:
            raise fault_at(
                settings, f"agents[{index}].id", f"`{agent_id(table)}` is declared twice"
            )
        declared_ids.add(agent_id(table))
