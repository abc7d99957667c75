"""Checks regularly which agents this worker can run. Its heartbeat stores the result."""

import logging

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.loop import PeriodicLoop
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.agents.catalog import Catalog
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.agents.readiness import check_agents

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 60.0


def readiness_loop(
    catalog: Catalog, worker: WorkerInfo, *, in_sandbox: bool, image: PodPrograms | None
) -> PeriodicLoop:
    return PeriodicLoop(
        "readiness",
        _INTERVAL_SECONDS,
        lambda: find_ready_agents(catalog, worker, in_sandbox=in_sandbox, image=image),
        first_after_seconds=_INTERVAL_SECONDS,
    )


async def find_ready_agents(
    catalog: Catalog, worker: WorkerInfo, *, in_sandbox: bool, image: PodPrograms | None
) -> None:
    """A program may be installed or removed while the worker runs."""
    agents = catalog.all()
    checked = await check_agents(agents, in_sandbox=in_sandbox, image=image)
    problems = {
        agent.id: _missing_tags(agent, worker) or readiness.reason
        for agent, readiness in zip(agents, checked, strict=True)
    }
    unready = {agent: reason for agent, reason in problems.items() if reason is not None}
    for agent, reason in unready.items():
        if worker.unready.get(agent) != reason:
            _log.warning("this worker cannot run %s: %s", agent, reason)
    worker.agents = [agent for agent, reason in problems.items() if reason is None]
    worker.unready = unready


def _missing_tags(agent: Agent, worker: WorkerInfo) -> str | None:
    missing = [tag for tag in agent.tags if tag not in worker.tags]
    if not missing:
        return None
    return f"it requires a worker with the tags {', '.join(missing)}: set AGENTJOBS_WORKER_TAGS"
