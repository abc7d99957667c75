"""A worker: its loops, started together and drained in order."""

import asyncio
import socket

from agentjobs.identifiers import new_id
from agentjobs.jobs import leases
from agentjobs.jobs.tools import JobTools
from agentjobs.worker.job_loop import JobLoop
from agentjobs.worker.lease_loop import CancelLoop, LeaseLoop
from agentjobs.worker.loop import Loop, PeriodicLoop, run_loops
from agentjobs.worker.rescue_loop import rescue_loop

_TIDY_SECONDS = 6 * 3600.0


class Worker:
    def __init__(self, tools: JobTools, slots: int) -> None:
        self._tools = tools
        self._db = tools.context.db
        self._settings = tools.context.settings
        agents = [agent.id for agent in tools.context.catalog.all()]
        self._card = leases.WorkerCard(new_id("wrk"), socket.gethostname(), slots, agents)
        self._jobs = JobLoop(tools, self._card.id, slots)

    @property
    def running_jobs(self) -> int:
        return len(self._jobs.held_jobs)

    async def start(self) -> None:
        """From here on the store counts on this worker."""
        await self._tools.workspaces.sweep()
        await leases.register(self._db, self._card)

    async def run(self, stopping: asyncio.Event, hurry: asyncio.Event) -> None:
        """Works until `stopping`, then drains (`hurry` cuts that short), leases kept meanwhile."""
        drained = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_loops(self._kept_to_the_end(), drained))
            await run_loops([self._jobs], stopping)
            await self._drain(hurry)
            drained.set()
        await leases.sign_off(self._db, self._card.id)
        await self._tools.workspaces.close()

    def _kept_to_the_end(self) -> list[Loop]:
        return [
            LeaseLoop(self._db, self._settings, self._card.id, self._jobs),
            CancelLoop(self._db, self._card.id, self._jobs),
            rescue_loop(self._db, self._settings),
            PeriodicLoop("mirrors", _TIDY_SECONDS, self._tools.mirrors.tidy),
        ]

    async def _drain(self, hurry: asyncio.Event) -> None:
        grace = 0.0 if hurry.is_set() else self._settings.drain_grace_seconds
        draining = asyncio.create_task(self._jobs.drain(grace))
        hurrying = asyncio.create_task(hurry.wait())
        await asyncio.wait({draining, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        if not draining.done():
            self._jobs.release_all()
        await draining
