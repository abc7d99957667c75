"""Checks regularly which agents this worker can run. Its heartbeat stores the result."""

import logging

from agentjobs.agents.catalog import Catalog
from agentjobs.agents.readiness import check_readiness
from agentjobs.jobs.queue.leases import WorkerInfo
from agentjobs.loops.loop import PeriodicLoop

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 60.0


def readiness_loop(catalog: Catalog, worker: WorkerInfo, *, in_sandbox: bool) -> PeriodicLoop:
    return PeriodicLoop(
        "readiness",
        _INTERVAL_SECONDS,
        lambda: check_agents(catalog, worker, in_sandbox=in_sandbox),
        first_after_seconds=_INTERVAL_SECONDS,
    )


async def check_agents(catalog: Catalog, worker: WorkerInfo, *, in_sandbox: bool) -> None:
    """A program may be installed or removed while the worker runs."""
    checks = [await check_readiness(agent, in_sandbox=in_sandbox) for agent in catalog.all()]
    unready = {check.agent: check.reason for check in checks if check.reason is not None}
    for agent, reason in unready.items():
        if worker.unready.get(agent) != reason:
            _log.warning("this worker cannot run %s: %s", agent, reason)
    worker.agents = [check.agent for check in checks if check.reason is None]
    worker.unready = unready
