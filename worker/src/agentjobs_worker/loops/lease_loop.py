"""Renews the leases of this worker's jobs, whatever the jobs and the event loop are doing.

It has its own thread and, while there are jobs, its own connection to the service. A worker that
cannot renew stops its agents before the leases expire, so that no job runs twice. Where renewals
take long, because the machine is starved, leases are longer, within bounds.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.outage_log import outages
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.errors import ServiceError
from agentjobs_runtime.protocol.messages import Renew
from agentjobs_runtime.protocol.outcomes import Abandoned, Cancelled, Outcome
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from agentjobs_worker.link.protocol import Link

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
# A connection that hangs must not block the loop past the lease: the next one may work.
_ATTEMPT_SECONDS = 3.0
# Time to stop the agents before their leases expire.
_MARGIN_SECONDS = 1.5
# For so many leases after it lost claims, a worker reports that it is alive: rescue may record
# them later than the first heartbeat.
_REPORTED_LEASES = 3
# So many renewals, as slow as the slowest of late, fit into a lease. A healthy one takes
# milliseconds, and a worker that dies leaves the lease of the settings.
_RENEWALS_PER_LEASE = 8
_MAX_EXTRA_LEASES = 3
# Below what rescue takes for a clock that was set back.
_MAX_EXTRA_SECONDS = 30.0


class ActiveJobs(Protocol):
    """The part of `JobLoop` that this loop uses. `active_jobs` is read in another thread."""

    @property
    def active_jobs(self) -> list[ClaimedJob]: ...

    def running_claims(self) -> frozenset[Claim]: ...

    def stop_claims(self, claims: frozenset[Claim], outcome: Outcome) -> None: ...

    def stop_all(self, outcome: Outcome) -> None: ...


class LeaseLoop:
    name = "leases"

    def __init__(
        self, link: Link, settings: Settings, worker: WorkerInfo, jobs: ActiveJobs
    ) -> None:
        self._link = link
        self._settings = settings
        self._worker = worker
        self._jobs = jobs
        self._renewed_at = time.monotonic()
        self._slow_seconds = 0.0
        # The shorter of the leases that were written last and those that claims get since then.
        self._held_seconds = settings.lease_seconds
        self._lost_claims_at: float | None = None
        self.failed_renewals = 0
        # Written in the main loop only.
        self.lost_leases = 0
        self._given_up = frozenset[Claim]()

    async def register(self) -> None:
        """The first heartbeat, so that the queue counts the worker's slots."""
        await self._link.call(self._request([]))
        self._renewed_at = time.monotonic()

    async def run(self) -> None:
        self._main_loop = asyncio.get_running_loop()
        await run_in_own_thread("agentjobs-leases", self._renew_forever)

    async def _renew_forever(self) -> None:
        async with self._link.open_another() as own_link:
            while True:
                await self._renew_or_give_up(own_link)

    async def _renew_or_give_up(self, own_link: Link) -> None:
        began = time.monotonic()
        extra_seconds = self._worker.extra_lease_seconds
        attempt_seconds = _ATTEMPT_SECONDS + extra_seconds / _MAX_EXTRA_LEASES
        try:
            async with asyncio.timeout(min(self._give_up_at - began, attempt_seconds)):
                await self._renew(own_link)
            self._renewed_at = began
            self._adapt_leases(time.monotonic() - began)
            extra_seconds = min(extra_seconds, self._worker.extra_lease_seconds)
            self._held_seconds = self._settings.lease_seconds + extra_seconds
            await asyncio.sleep(self._settings.lease_renew_seconds)
        except (ServiceError, TimeoutError) as error:
            # Only a renewal that succeeds shows that the machine has recovered.
            self._adapt_leases(max(time.monotonic() - began, self._slow_seconds))
            self.failed_renewals += 1
            outages.report("leases", error)
            if time.monotonic() >= self._give_up_at:
                self._lost_claims_at = time.monotonic()
                self._on_main_loop(self._stop_all)
                self._renewed_at = time.monotonic()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _renew(self, own_link: Link) -> None:
        jobs = self._jobs.active_jobs
        request = self._request(jobs)
        # An idle worker needs no connection for its leases.
        renewal = await (
            own_link.call(request) if jobs else self._run_on_main_loop(self._link.call(request))
        )
        lost = frozenset(job.claim for job in jobs) - renewal.renewed
        if lost:
            self._lost_claims_at = time.monotonic()
        self._on_main_loop(self._stop, lost, renewal.cancel_requested)

    def _request(self, jobs: list[ClaimedJob]) -> Renew:
        return Renew(
            worker=self._worker,
            claims=tuple(job.claim for job in jobs),
            was_cut_off=self._was_cut_off,
            sent_at=now_ms(),
        )

    def _adapt_leases(self, seconds: float) -> None:
        """`seconds` is how long the last renewal took."""
        self._slow_seconds = max(seconds, self._slow_seconds / 2)
        lease_seconds = self._settings.lease_seconds
        longest = min(_MAX_EXTRA_LEASES * lease_seconds, _MAX_EXTRA_SECONDS)
        extra_seconds = _RENEWALS_PER_LEASE * self._slow_seconds - lease_seconds
        self._worker.extra_lease_seconds = min(max(extra_seconds, 0.0), longest)

    def _stop_all(self) -> None:
        if lost := self._count_lost(frozenset(job.claim for job in self._jobs.active_jobs)):
            _log.warning("%d jobs are stopped before their leases expire", len(lost))
        self._jobs.stop_all(Abandoned())

    def _stop(self, lost: frozenset[Claim], cancelled: frozenset[Claim]) -> None:
        # A job may have ended while its lease was being renewed.
        if lost := self._count_lost(lost & self._jobs.running_claims()):
            _log.warning("lost the claims on %s", ", ".join(job_id for job_id, _ in sorted(lost)))
        self._jobs.stop_claims(lost, Abandoned())
        self._jobs.stop_claims(cancelled, Cancelled())

    def _count_lost(self, claims: frozenset[Claim]) -> frozenset[Claim]:
        """Claims that were not lost before: a stopped job stays active until it has ended, and one
        whose work is done until its end can be stored."""
        active = frozenset(job.claim for job in self._jobs.active_jobs)
        new = claims - self._given_up
        self._given_up = self._given_up & active | claims
        self.lost_leases += len(new)
        return new

    async def _run_on_main_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._main_loop))

    def _on_main_loop(self, call: Callable[..., None], *arguments: object) -> None:
        # It is closed only when the service is ending.
        with suppress(RuntimeError):
            self._main_loop.call_soon_threadsafe(call, *arguments)

    @property
    def _was_cut_off(self) -> bool:
        reported_seconds = _REPORTED_LEASES * self._settings.lease_seconds + _MAX_EXTRA_SECONDS
        lost_at = self._lost_claims_at
        return lost_at is not None and time.monotonic() - lost_at < reported_seconds

    @property
    def _give_up_at(self) -> float:
        margin = min(_MARGIN_SECONDS, self._settings.lease_seconds / 4)
        return self._renewed_at + self._held_seconds - margin


async def run_in_own_thread(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A cancellation cancels the work too, and waits for its end."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work())

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    with contextlib.closing(loop), ThreadPoolExecutor(1, thread_name_prefix=name) as executor:
        running = asyncio.get_running_loop().run_in_executor(executor, run)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait({running})
            raise
