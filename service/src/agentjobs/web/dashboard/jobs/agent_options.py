"""The agents that a form for a new job offers."""

from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.agents.definitions import Agent

# The value, its text and why it cannot be chosen, if it cannot.
AgentOption = tuple[str, str, str | None]


def agent_options(request: PageRequest) -> list[AgentOption]:
    """All agents; those that the plan does not include cannot be chosen."""
    agents = sorted(request.context.catalog.all(), key=lambda agent: agent.id)
    return [(agent.id, _label(agent), _unavailable_reason(request, agent)) for agent in agents]


def _label(agent: Agent) -> str:
    return agent.id if agent.name.lower() == agent.id else f"{agent.id}: {agent.name}"


def _unavailable_reason(request: PageRequest, agent: Agent) -> str | None:
    if request.context.plans.allows(request.viewer.plan, agent.plan_required):
        return None
    return f"requires the {agent.plan_required} plan"
