"""Publishes finished work, in every process of the service: some jobs at once, each under a lease.

A process that is lost leaves the work to the others.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.kept_work import TOPIC, claim_kept_work, renew_publishing
from agentjobs.jobs.results.run_records import record_phases
from agentjobs.publishing.context import ServiceRun, ServiceTools
from agentjobs.publishing.publish import Publication, publish
from agentjobs.publishing.run_log import PublishingLog
from agentjobs.store.database import Database, StoreError
from agentjobs.store.leases import run_renewing
from agentjobs_runtime import logging_setup
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.loop import wait_for_first
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost, retry_within_lease
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Released,
    describe_failure,
)
from agentjobs_runtime.protocol.run_trace import record_run
from agentjobs_runtime.tracing.spans import within_span

_log = logging.getLogger(__name__)
_AT_ONCE = 4
_POLL_SECONDS = 1.0


class PublishLoop:
    name = "publish"

    def __init__(self, tools: ServiceTools, is_able: Callable[[], bool] = lambda: True) -> None:
        """While `is_able` returns False, the work is left to other processes."""
        self._tools = tools
        self._is_able = is_able
        self._db: Database = tools.db
        self._settings = tools.context.settings
        self._lease_ms = int(self._settings.lease_seconds * SECOND_MS)
        self._active: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        changes = self._db.changes
        with changes.listen(TOPIC) as signal:
            while True:
                self._ended.clear()
                signal.clear()
                if not await self._claim():
                    announced = signal.wait(changes.poll_seconds(_POLL_SECONDS))
                    await wait_for_first(announced, self._ended.wait())

    async def finish(self, grace_seconds: float, stop_now: asyncio.Event) -> None:
        """Other processes publish what does not end in time."""
        with suppress(StoreError):
            await self._claim()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await wait_for_first(stop_now.wait(), self._wait_until_idle())
        for task in self._active:
            task.cancel()
        await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        if self._active:
            await asyncio.wait(self._active)

    async def _claim(self) -> bool:
        """Whether there may be more to publish now."""
        free = _AT_ONCE - len(self._active) if self._is_able() else 0
        jobs = await claim_kept_work(self._db, free, self._lease_ms) if free else []
        for job in jobs:
            self._start(job)
        return 0 < free == len(jobs)

    def _start(self, job: ClaimedJob) -> None:
        task = asyncio.create_task(self._run_to_end(job), name=f"publish {job.id}")
        self._active.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        self._ended.set()

    async def _run_to_end(self, job: ClaimedJob) -> None:
        logging_setup.job_id.set(job.id)
        try:
            outcome = await run_renewing(
                self._publish(job),
                partial(renew_publishing, self._db, job, self._lease_ms),
                self._settings.lease_renew_seconds,
                self._lease_ms,
            )
        except ClaimLost:
            _log.warning("another process publishes the job")
        except asyncio.CancelledError:
            with suppress(StoreError):
                await finish_job(self._db, job, Released())
            raise
        except Exception:  # noqa: BLE001 - a fault of one job must not stop the others
            _log.exception("the outcome of a job could not be stored; its lease will expire")
        else:
            _log_end(outcome)

    async def _publish(self, job: ClaimedJob) -> Outcome:
        log = PublishingLog(self._db, job)
        run = ServiceRun(job, self._tools, log)
        store = partial(record_phases, self._db, job)
        async with log.storing(), run.phases.store_in_background(store):
            with within_span(run.phases.span):
                outcome = await publish(Publication(run))
        if isinstance(outcome, Abandoned):
            raise ClaimLost
        is_end = isinstance(outcome, Completed | Failed | Cancelled)
        phases = run.phases.encode_end(outcome) if is_end else run.phases.encode()
        if not is_end:
            await store(phases)
        if not await retry_within_lease(
            lambda: finish_job(self._db, job, outcome, phases), self._settings.lease_seconds
        ):
            raise ClaimLost
        if is_end:
            record_run(job, run.phases.span, run.phases.claimed_at, outcome)
        return outcome


def _log_end(outcome: Outcome) -> None:
    fields = {"outcome": type(outcome).__name__.lower()}
    if (reason := describe_failure(outcome)) is not None:
        fields["reason"] = reason
    _log.info("publishing ended", extra={"fields": fields})
