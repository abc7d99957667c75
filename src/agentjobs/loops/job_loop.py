"""Claims jobs into free slots and sees each through to a stored outcome; stops them when told."""

import asyncio
import logging

from agentjobs import logging_setup
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import Claim, ClaimedJob, claim_job
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.leases import WorkerCard
from agentjobs.jobs.run.outcomes import Abandoned, Completed, Failed, Outcome, Released
from agentjobs.jobs.run.retry import as_long_as_leased
from agentjobs.jobs.run.run import Run
from agentjobs.jobs.run.tools import JobTools
from agentjobs.loops.loop import first_of
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.leases import ClaimLost

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_UNEXPECTED = (
    "The worker failed to run this job; its operator finds the reason in the worker's log."
)


class _Held:
    """A job in a slot: its task, and the reason once it is told to stop."""

    def __init__(self, job: ClaimedJob, slot: int) -> None:
        self.job = job
        self.slot = slot
        self.run: Run | None = None
        self.task: asyncio.Task[None] | None = None
        self.work: asyncio.Task[Outcome] | None = None
        self.stopped_as: Outcome | None = None

    def stop(self, outcome: Outcome) -> None:
        """The first reason counts. A pull request being opened is finished, if the claim lives."""
        too_late = self.run is not None and self.run.is_irrevocable
        if self.stopped_as is not None or (too_late and not isinstance(outcome, Abandoned)):
            return
        self.stopped_as = outcome
        if self.work is not None:
            self.work.cancel()


class JobLoop:
    name = "jobs"

    def __init__(self, tools: JobTools, worker: WorkerCard) -> None:
        self._tools = tools
        self._worker = worker
        self._free_slots = list(range(worker.slots - 1, -1, -1))
        self._held: dict[Claim, _Held] = {}
        self._slot_freed = asyncio.Event()

    @property
    def held_jobs(self) -> list[ClaimedJob]:
        return [held.job for held in self._held.values()]

    def stop_claims(self, claims: frozenset[Claim], outcome: Outcome) -> None:
        for claim in claims:
            if claim in self._held:
                self._held[claim].stop(outcome)

    def stop_all(self, outcome: Outcome) -> None:
        self.stop_claims(frozenset(self._held), outcome)

    async def all_ended(self) -> None:
        tasks = {held.task for held in self._held.values() if held.task is not None}
        if tasks:
            await asyncio.wait(tasks)

    async def run(self, stopping: asyncio.Event) -> None:
        with self._tools.context.db.changes.listen("jobs") as signal:
            while not stopping.is_set():
                if not self._free_slots:
                    self._slot_freed.clear()
                    await first_of(stopping.wait(), self._slot_freed.wait())
                    continue
                job = await claim_job(self._tools.context, self._worker.id, self._worker.agents)
                if job is not None:
                    self._begin(job)
                else:
                    await first_of(stopping.wait(), signal.wait(_POLL_SECONDS))

    def _begin(self, job: ClaimedJob) -> None:
        # After a long sleep of the machine our own earlier claim may be under way still.
        earlier = frozenset(claim for claim in self._held if claim[0] == job.id)
        self.stop_claims(earlier, Abandoned())
        held = _Held(job, self._free_slots.pop())
        self._held[job.claim] = held
        held.task = asyncio.create_task(self._see_through(held), name=f"job {job.id}")

    async def _see_through(self, held: _Held) -> None:
        logging_setup.job_id.set(held.job.id)
        try:
            async with LogWriter(
                self._tools.context.db,
                held.job,
                self._tools.context.settings.max_job_log_bytes,
                secrets=(held.job.credential,),
            ) as log:
                outcome = await self._outcome(held, log)
                if isinstance(outcome, Failed):
                    log.say(f"failed: {outcome.code}")
            is_stored = await self._store(held, outcome)
            name = type(outcome).__name__.lower() if is_stored else "claim lost"
            _log.info("job ended", extra={"fields": {"outcome": name}})
        except Exception:  # noqa: BLE001 - one job's fault must not stop the worker
            _log.exception("a job could not be seen through; its lease will run out")
        finally:
            self._free_slots.append(held.slot)
            self._slot_freed.set()
            del self._held[held.job.claim]

    async def _outcome(self, held: _Held, log: LogWriter) -> Outcome:
        held.run = Run(held.job, self._tools, held.slot, log)
        held.work = asyncio.create_task(held.run.outcome())
        if held.stopped_as is not None:
            held.work.cancel()
        try:
            outcome = await self._judged(held.work)
        except asyncio.CancelledError:
            if held.stopped_as is None:
                raise
            outcome = held.stopped_as
        # A run told to stop may have failed while it cleaned up; the reason to stop counts.
        if held.stopped_as is not None and not isinstance(outcome, Completed):
            return held.stopped_as
        return outcome

    async def _judged(self, work: asyncio.Task[Outcome]) -> Outcome:
        try:
            return await work
        except ClaimLost:
            return Abandoned()
        except StoreUnavailable as error:
            _log.warning("the store went away under a run: %s", error)
            return Released()
        except Exception:  # noqa: BLE001 - the job must end as failed, whatever went wrong
            _log.exception("a run failed in a way nobody expected")
            return Failed("sandbox_error", _UNEXPECTED)

    async def _store(self, held: _Held, outcome: Outcome) -> bool:
        """As long as the lease lives: a store that is away for a moment costs no result."""
        return await as_long_as_leased(
            lambda: finish_job(self._tools.context.db, held.job, outcome),
            self._tools.context.settings.lease_seconds,
        )
