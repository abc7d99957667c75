"""Claims jobs into free slots, runs each to a stored outcome, and stops them on request."""

import asyncio
import logging
import time
from collections.abc import Sequence

from agentjobs_runtime import logging_setup
from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.loop import wait_for_first
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.errors import retry_within_lease
from agentjobs_runtime.protocol.messages import JOBS_TOPIC, ClaimedJobs, ClaimJobs, FinishJob
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    Cancelled,
    Completed,
    Failed,
    Kept,
    Outcome,
    Released,
    Reported,
    describe_failure,
)
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.logs.writer import LogWriter
from agentjobs_worker.loops.claim_limits import (
    POSTPONED_SECONDS,
    RESERVED_SECONDS,
    LoadControl,
    RecentOrganizations,
)
from agentjobs_worker.loops.platform_reach import PlatformReach
from agentjobs_worker.run.context import JobTools, RunContext
from agentjobs_worker.run.results import store_results_at_end
from agentjobs_worker.run.run import run_job
from agentjobs_worker.run.trace import run_span
from agentjobs_worker.run.upload import pack_work

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
# How long finished work waits for the service to return.
_KEEP_SECONDS = 600.0
_NOTHING = ClaimedJobs([], may_find_more=False)


class _ActiveJob:
    """A job in a slot. Once it is stopped, `stop_outcome` is how it ends."""

    def __init__(self, job: ClaimedJob, slot: int) -> None:
        self.job = job
        self.slot = slot
        self.task: asyncio.Task[None] | None = None
        self.stop_outcome: Outcome | None = None
        self.is_ending = False
        self.claimed_at = time.monotonic()
        self._run: RunContext | None = None
        self._running: asyncio.Task[Outcome] | None = None

    def stop(self, outcome: Outcome) -> None:
        """The first call counts."""
        if self.stop_outcome is not None:
            return
        self.stop_outcome = outcome
        if self._running is not None:
            self._running.cancel()

    async def run(self, tools: JobTools, log: LogWriter) -> Outcome:
        self._run = RunContext(self.job, tools, self.slot, log)
        with run_span(self.job, self._run.phases) as span:
            span.outcome = await self._run_or_stop(self._run)
            return span.outcome

    async def _run_or_stop(self, run: RunContext) -> Outcome:
        self._running = asyncio.create_task(run_job(run))
        if self.stop_outcome is not None:
            self._running.cancel()
        try:
            outcome = await self._running
        except asyncio.CancelledError:
            if self.stop_outcome is None:
                raise
            return await self._outcome_of_stop(self.stop_outcome)
        # A stopped run may fail while it cleans up; the reason to stop it counts.
        if self.stop_outcome is not None and not isinstance(outcome, Completed | Kept):
            return await self._outcome_of_stop(self.stop_outcome)
        return outcome

    def phases_at_end(self, outcome: Outcome) -> str | None:
        return None if self._run is None else self._run.phases.encode_end(outcome)

    async def keep_work(self) -> Kept | Reported | None:
        """The work that is done but not stored; None if there is none."""
        if self._run is None or self._run.report is not None or self._run.finished_work is None:
            return None if self._run is None else self._run.report
        try:
            return await pack_work(self._run, self._run.finished_work)
        except (GitError, OSError, UnsafeChange) as error:
            self._run.log.note(f"the work cannot be kept: {error}")
            return None

    async def _outcome_of_stop(self, outcome: Outcome) -> Outcome:
        """A worker that drains keeps the work that is done, and a cancelled job its artifacts."""
        if self._run is not None and isinstance(outcome, Cancelled):
            await store_results_at_end(self._run)
        if not isinstance(outcome, Released) or self._run is None:
            return outcome
        return await self.keep_work() or outcome


class JobLoop:
    name = "jobs"

    def __init__(self, tools: JobTools, worker: WorkerInfo, free_space: FreeSpace) -> None:
        self._tools = tools
        self._link = tools.link
        self._settings = tools.settings
        self._worker = worker
        self._free_space = free_space
        self._free_slots = list(range(worker.slots - 1, -1, -1))
        self._active: dict[Claim, _ActiveJob] = {}
        self._recent = RecentOrganizations()
        self._reach = PlatformReach()
        self._load = LoadControl(worker.slots)
        self._slot_freed = asyncio.Event()
        self.has_jobs = asyncio.Event()

    @property
    def active_jobs(self) -> list[ClaimedJob]:
        # Other threads read it: the copy is made without a switch to this one.
        return [active.job for active in list(self._active.values())]

    def running_claims(self) -> frozenset[Claim]:
        """Claims of jobs whose end is not being stored, which ends the claim too."""
        return frozenset(claim for claim, active in self._active.items() if not active.is_ending)

    def stop_claims(self, claims: frozenset[Claim], outcome: Outcome) -> None:
        for claim in claims:
            if claim in self._active:
                self._active[claim].stop(outcome)

    def stop_all(self, outcome: Outcome) -> None:
        self.stop_claims(frozenset(self._active), outcome)

    async def wait_until_idle(self) -> None:
        tasks = {active.task for active in self._active.values() if active.task is not None}
        if tasks:
            await asyncio.wait(tasks)

    def adopt(self, jobs: Sequence[ClaimedJob]) -> None:
        """Run jobs of a dead worker, of which there are at most as many as slots."""
        for job in jobs:
            self._start(job)

    async def run(self, stopping: asyncio.Event) -> None:
        changes = self._link.changes
        with changes.listen(JOBS_TOPIC, takes_work=True) as signal:
            while not stopping.is_set():
                self._slot_freed.clear()
                if not self._free_slots:
                    await wait_for_first(stopping.wait(), self._slot_freed.wait())
                    continue
                expected, postponed = self._expected(), self._recent.postponed(self._served())
                signal.clear()
                claimed = await self._claim(expected, postponed)
                for job in claimed.jobs:
                    self._start(job)
                if not claimed.jobs:
                    self._tools.spare_sandboxes.create(self._free_slots)
                if not claimed.jobs or not claimed.may_find_more:
                    seconds = changes.poll_seconds(_POLL_SECONDS)
                    if postponed:
                        seconds = min(seconds, POSTPONED_SECONDS)
                    elif expected:
                        seconds = min(seconds, RESERVED_SECONDS)
                    announced = signal.wait(seconds)
                    await wait_for_first(stopping.wait(), self._slot_freed.wait(), announced)

    def _served(self) -> frozenset[str]:
        return frozenset(job.organization_id for job in self.active_jobs)

    def _expected(self) -> frozenset[str]:
        """Organizations for which one slot stays free."""
        return frozenset() if self._worker.slots == 1 else self._recent.without(self._served())

    async def _claim(self, expected: frozenset[str], postponed: frozenset[str]) -> ClaimedJobs:
        # A checkout on a full disk would fail, and the database needs space too.
        if self._free_space.is_low or self._worker.sandbox_problem or self._reach.is_paused:
            return _NOTHING
        if not (count := min(len(self._free_slots), self._load.free(len(self._active)))):
            return _NOTHING
        request = ClaimJobs(
            agents=self._worker.agents,
            count=count,
            expected=expected,
            postponed=postponed,
            extra_lease_seconds=self._worker.extra_lease_seconds,
        )
        return await self._link.call(request)

    def _start(self, job: ClaimedJob) -> None:
        # After the machine was suspended, this worker may still run an earlier claim of the job.
        earlier = frozenset(claim for claim in self._active if claim[0] == job.id)
        self.stop_claims(earlier, Abandoned())
        active = _ActiveJob(job, self._free_slots.pop())
        self._active[job.claim] = active
        self.has_jobs.set()
        active.task = asyncio.create_task(self._run_to_end(active), name=f"job {job.id}")

    async def _store(self, active: _ActiveJob, outcome: Outcome) -> bool:
        is_work = isinstance(outcome, Kept | Reported)
        seconds = _KEEP_SECONDS if is_work else self._settings.lease_seconds
        request = FinishJob(active.job.claim, outcome, active.phases_at_end(outcome))
        return await retry_within_lease(lambda: self._link.call(request), seconds)

    async def _hand_over(self, active: _ActiveJob) -> Kept | Reported | Abandoned:
        """The claim is lost. Work that is done can still be kept, so that it is not done again."""
        kept = await active.keep_work()
        is_stored = kept is not None and await self._store(active, kept)
        return kept if kept is not None and is_stored else Abandoned()

    async def _run_to_end(self, active: _ActiveJob) -> None:
        logging_setup.job_id.set(active.job.id)
        has_failed = False
        try:
            async with LogWriter(
                self._link,
                active.job,
                self._settings.max_job_log_bytes,
                secrets=(active.job.credential,),
            ) as log:
                outcome = await active.run(self._tools, log)
                if has_failed := isinstance(outcome, Failed):
                    log.note(f"failed: {outcome.code}")
            active.is_ending = True
            if not await self._store(active, outcome):
                outcome = await self._hand_over(active)
            _log_end(outcome)
            self._reach.record(active.job, active.claimed_at, outcome)
            self._load.record(active.claimed_at, outcome)
        except Exception:  # noqa: BLE001 - a fault of one job must not stop the worker
            _log.exception("the outcome of a job could not be stored; its lease will expire")
        finally:
            self._recent.add(active.job.organization_id, active.claimed_at, has_failed=has_failed)
            self._free_slots.append(active.slot)
            self._slot_freed.set()
            del self._active[active.job.claim]
            if not self._active:
                self.has_jobs.clear()


def _log_end(outcome: Outcome) -> None:
    fields = {"outcome": type(outcome).__name__.lower()}
    if (reason := describe_failure(outcome)) is not None:
        fields["reason"] = reason
    _log.info("job ended", extra={"fields": fields})
