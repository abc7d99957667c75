"""Whether agents can run, for commands that look without being a worker."""

import asyncio
from collections.abc import Sequence

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.agents.readiness import Readiness, check_agents
from agentjobs_worker.sandbox.factory import open_trial_pods

# The user of the command waits for it.
_MAX_SECONDS = 120.0


async def check_installed(settings: Settings, agents: Sequence[Agent]) -> list[Readiness]:
    """On this machine, or in the image of pods."""
    if not settings.uses_kubernetes:
        return await check_agents(agents, in_sandbox=settings.has_sandbox)
    try:
        async with asyncio.timeout(_MAX_SECONDS), open_trial_pods(settings) as sandbox:
            image = PodPrograms(sandbox, settings.effective_kubernetes_image)
            return await check_agents(agents, image=image)
    except TimeoutError:
        reason = f"no pod ran within {_MAX_SECONDS:g} seconds: see `agentjobs doctor`"
        return [Readiness(agent=agent.id, installed=False, reason=reason) for agent in agents]
