"""Finds out, again and again, which agents this worker can run. Its heartbeat tells the others."""

import logging

from agentjobs.agents.catalog import Catalog
from agentjobs.agents.readiness import readiness_of
from agentjobs.jobs.queue.leases import WorkerCard
from agentjobs.loops.loop import PeriodicLoop

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 60.0


def readiness_loop(catalog: Catalog, card: WorkerCard, *, in_sandbox: bool) -> PeriodicLoop:
    return PeriodicLoop(
        "readiness",
        _LOOK_SECONDS,
        lambda: look_at_agents(catalog, card, in_sandbox=in_sandbox),
        first_after_seconds=_LOOK_SECONDS,
    )


async def look_at_agents(catalog: Catalog, card: WorkerCard, *, in_sandbox: bool) -> None:
    """A program may be installed or removed while the worker runs."""
    found = [await readiness_of(agent, in_sandbox=in_sandbox) for agent in catalog.all()]
    unready = {each.agent: each.reason for each in found if each.reason is not None}
    for agent, reason in unready.items():
        if card.unready.get(agent) != reason:
            _log.warning("this worker cannot run %s: %s", agent, reason)
    card.agents = [each.agent for each in found if each.reason is None]
    card.unready = unready
