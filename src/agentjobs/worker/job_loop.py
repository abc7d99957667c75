"""Claims jobs into free slots and sees each through to a stored outcome; stops them when told."""

import asyncio
import logging
import time

from agentjobs import logging_setup
from agentjobs.jobs.claim import ClaimedJob, claim_job
from agentjobs.jobs.finish import finish_job
from agentjobs.jobs.log_writer import LogWriter
from agentjobs.jobs.outcomes import Abandoned, ClaimLost, Failed, Outcome, Released
from agentjobs.jobs.run import Run
from agentjobs.jobs.tools import JobTools
from agentjobs.store.database import StoreUnavailable
from agentjobs.worker.loop import first_of

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_STORE_RETRY_SECONDS = 0.5
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

    def __init__(self, tools: JobTools, worker_id: str, slots: int) -> None:
        self._tools = tools
        self._worker_id = worker_id
        self._free_slots = list(range(slots - 1, -1, -1))
        self._held: dict[str, _Held] = {}
        self._slot_freed = asyncio.Event()
        self._agents = [agent.id for agent in tools.context.catalog.all()]

    @property
    def held_jobs(self) -> list[ClaimedJob]:
        return [held.job for held in self._held.values()]

    def stop_jobs(self, job_ids: frozenset[str], outcome: Outcome) -> None:
        for job_id in job_ids:
            if job_id in self._held:
                self._held[job_id].stop(outcome)

    def stop_all(self, outcome: Outcome) -> None:
        self.stop_jobs(frozenset(self._held), outcome)

    def release_all(self) -> None:
        self.stop_all(Released())

    async def run(self, stopping: asyncio.Event) -> None:
        with self._tools.context.db.changes.listen("jobs") as signal:
            while not stopping.is_set():
                if not self._free_slots:
                    self._slot_freed.clear()
                    await first_of(stopping.wait(), self._slot_freed.wait())
                    continue
                job = await claim_job(self._tools.context, self._worker_id, self._agents)
                if job is not None:
                    self._begin(job)
                else:
                    await first_of(stopping.wait(), signal.wait(_POLL_SECONDS))

    async def drain(self, grace_seconds: float) -> None:
        """Running jobs may finish within the grace; then they go back to the queue."""
        tasks = [held.task for held in self._held.values() if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        self.release_all()
        await asyncio.gather(*(held.task for held in self._held.values() if held.task is not None))

    def _begin(self, job: ClaimedJob) -> None:
        held = _Held(job, self._free_slots.pop())
        self._held[job.id] = held
        held.task = asyncio.create_task(self._see_through(held), name=f"job {job.id}")

    async def _see_through(self, held: _Held) -> None:
        logging_setup.job_id.set(held.job.id)
        try:
            async with LogWriter(
                self._tools.context.db, held.job, self._tools.context.settings.max_job_log_bytes
            ) as log:
                outcome = await self._outcome(held, log)
                if isinstance(outcome, Failed):
                    log.say(f"failed: {outcome.code}")
            await self._store(held, outcome)
            _log.info("job ended", extra={"fields": {"outcome": type(outcome).__name__.lower()}})
        except Exception:  # noqa: BLE001 - one job's fault must not stop the worker
            _log.exception("a job could not be seen through; its lease will run out")
        finally:
            del self._held[held.job.id]
            self._free_slots.append(held.slot)
            self._slot_freed.set()

    async def _outcome(self, held: _Held, log: LogWriter) -> Outcome:
        held.run = Run(held.job, self._tools, held.slot, log)
        held.work = asyncio.create_task(held.run.outcome())
        if held.stopped_as is not None:
            held.work.cancel()
        try:
            return await held.work
        except asyncio.CancelledError:
            if held.stopped_as is None:
                raise
            return held.stopped_as
        except ClaimLost:
            return Abandoned()
        except StoreUnavailable as error:
            _log.warning("the store went away under a run: %s", error)
            return Released()
        except Exception:  # noqa: BLE001 - the job must end as failed, whatever went wrong
            _log.exception("a run failed in a way nobody expected")
            return Failed("sandbox_error", _UNEXPECTED)

    async def _store(self, held: _Held, outcome: Outcome) -> None:
        """As long as the lease lives: a store that is away for a moment costs no result."""
        give_up = time.monotonic() + self._tools.context.settings.lease_seconds
        while True:
            try:
                await finish_job(self._tools.context.db, held.job, outcome)
            except StoreUnavailable:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(_STORE_RETRY_SECONDS)
            else:
                return
