"""Sends waiting deliveries: claims them under a lease, attempts them concurrently, records them.

Attempts run outside any transaction. Claiming and recording each use one transaction at a time,
so batches grow with the load.
"""

import asyncio
import logging
from collections import Counter
from typing import get_args

from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.attempt import WebhookClient, send
from agentjobs.webhooks.concurrency import AttemptKind, ScanCursor, SlotPool, Slots
from agentjobs.webhooks.events import TOPIC
from agentjobs.webhooks.failures import ResourcesExhausted
from agentjobs.webhooks.maintenance import bring_retries_forward, run_maintenance
from agentjobs.webhooks.model import Attempt, ClaimedDelivery, ErrorClass
from agentjobs.webhooks.queue import ClaimBatch, LeaseTerms, claim, release_all, waiting_kinds
from agentjobs.webhooks.record import FinishedAttempt, Recorder
from agentjobs.webhooks.retries import MAX_RETRY_AFTER_FACTOR, decide_outcome
from agentjobs.webhooks.signing import SecretOpener
from agentjobs_runtime.clock import SECOND_MS, elapsed_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_POLL_SECONDS = 1.0
_CLOCK_CHECK_MS = 60_000
# What is due later than this after its latest time is from before the clock was set back.
_MAX_CLOCK_STEP_MS = 60_000
_MAINTENANCE_SECONDS = 2.0
_MAX_MAINTENANCE_SECONDS = 30.0
# How long endpoints are left to other machines after their secret could not be opened here.
_LOCKED_MS = 60_000
# How long a machine without free file descriptors or memory sends nothing.
_PAUSE_MS = 1_000
# Timers of the event loop may be early by a moment.
_RETRY_MARGIN_MS = 5
# Time reserved after the response head, for its body and for recording.
_RECORD_MARGIN_MS = 3_000
# In a fleet, each sender has few deliveries: those of the next moments share a claim.
_GATHER_SECONDS_PER_PROCESS = 0.001
_MAX_GATHER_SECONDS = 0.05
# Consecutive claims without a pause that found nothing although there was more to scan.
_MAX_EMPTY_CLAIMS = 32
_SUCCESS = "success"

_log = logging.getLogger(__name__)


class Sender:
    def __init__(
        self, db: Database, secrets: SecretOpener, client: WebhookClient, settings: Settings
    ) -> None:
        self.id = new_id("snd")
        self._db = db
        self._secrets = secrets
        self._client = client
        self._settings = settings
        self._lease_ms = round(settings.webhook_lease_seconds * SECOND_MS)
        timeout_ms = round(settings.webhook_timeout_seconds * SECOND_MS)
        self._max_start_delay_ms = self._lease_ms - timeout_ms - _RECORD_MARGIN_MS
        self._slots = Slots(settings.webhook_concurrency, settings.webhook_endpoint_concurrency)
        self._in_progress: dict[asyncio.Task[None], ClaimedDelivery] = {}
        self._wake = asyncio.Event()
        # Recording an attempt makes the next event of its job claimable.
        self.recorder = Recorder(db, self.id, settings.webhook_disable_days, self._wake.set)
        # Attempts of this process.
        self.results = Counter[str](dict.fromkeys((_SUCCESS, *get_args(ErrorClass)), 0))
        self._locked_until: dict[str, int] = {}
        self._paused_until = 0
        self._cursors: dict[AttemptKind, ScanCursor] = {
            "first": ScanCursor(),
            "retry": ScanCursor(),
        }
        self._empty_claims = 0
        self._is_claiming = False
        self._expects_work = True
        # By the monotonic clock; sooner when a retry of this sender is due.
        self._next_retry_poll = 0
        self._next_maintenance = 0
        self._next_clock_check = 0
        # From the monotonic clock to the database's time.
        self._clock_offset_ms = 0
        max_wait = MAX_RETRY_AFTER_FACTOR * max(settings.webhook_retry_seconds, default=0)
        self._max_wait_ms = round(max_wait * SECOND_MS) + _MAX_CLOCK_STEP_MS

    async def run(self) -> None:
        """Runs forever; `recorder.run` must run beside it."""
        changes = self._db.changes
        unsubscribe = changes.on(TOPIC, self._wake.set, takes_work=True, passes_on=True)
        try:
            while True:
                self._wake.clear()
                await self._claim_and_start()
                await self._maintain()
                await self._wait()
                await self._gather()
        finally:
            unsubscribe()
            changes.pass_on(TOPIC)

    async def drain(self, timeout_seconds: float, force_stop: asyncio.Event) -> None:
        """Waits for attempts to end, records them and releases the rest."""
        all_ended = asyncio.create_task(self._wait_for_attempts())
        forced_stop = asyncio.create_task(force_stop.wait())
        await asyncio.wait(
            {all_ended, forced_stop}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        forced_stop.cancel()
        for task in self._in_progress:
            task.cancel()
        await all_ended
        await self.recorder.flush()
        await self._db.transact(release_all, self.id)

    async def _wait_for_attempts(self) -> None:
        while self._in_progress:
            await asyncio.wait(self._in_progress)

    async def _claim_and_start(self) -> None:
        kinds = self._kinds_to_claim()
        if not kinds:
            self._db.changes.pass_on(TOPIC)
        if "retry" in kinds:
            poll_seconds = self._db.changes.poll_seconds(_POLL_SECONDS)
            self._next_retry_poll = elapsed_ms() + round(poll_seconds * SECOND_MS)
        if not self._expects_work:
            # Usually nothing waits, or another sender has taken it: one read finds out.
            waiting = await waiting_kinds(self._db)
            kinds = [kind for kind in kinds if kind in waiting]
        if kinds:
            await self._claim_kinds(kinds)

    async def _claim_kinds(self, kinds: list[AttemptKind]) -> None:
        started_at = elapsed_ms()
        self._expects_work = False
        self._is_claiming = True
        try:
            batches = await self._db.transact(self._claim, kinds)
        finally:
            self._is_claiming = False
        claimed = [delivery for batch in batches.values() for delivery in batch.deliveries]
        for pool, delivery in claimed:
            self._start(pool, delivery, started_at)
        self._empty_claims = 0 if claimed else self._empty_claims + 1
        for kind, batch in batches.items():
            if batch.has_more and self._empty_claims < _MAX_EMPTY_CLAIMS:
                self._claim_again(kind)
        if self._excluded_endpoints() or any(map(self._slots.is_saturated, batches)):
            # Other senders may be able to send the rest.
            self._db.changes.pass_on(TOPIC)

    def _kinds_to_claim(self) -> list[AttemptKind]:
        if elapsed_ms() < self._paused_until:
            return []
        return ["first"] if elapsed_ms() < self._next_retry_poll else ["first", "retry"]

    async def _claim(
        self, tx: Transaction, kinds: list[AttemptKind]
    ) -> dict[AttemptKind, ClaimBatch]:
        now = await tx.clock_ms()
        self._clock_offset_ms = now - elapsed_ms()
        terms = LeaseTerms(
            owner=self.id,
            lease_ms=self._lease_ms,
            now=now,
            excluded_endpoints=self._excluded_endpoints(),
        )
        return {
            kind: await claim(tx, kind, self._slots, terms, self._cursors[kind]) for kind in kinds
        }

    def _excluded_endpoints(self) -> frozenset[str]:
        """Endpoints whose secret could not be opened on this machine."""
        elapsed = elapsed_ms()
        return frozenset(
            endpoint_id for endpoint_id, until in self._locked_until.items() if until > elapsed
        )

    def _claim_again(self, kind: AttemptKind) -> None:
        if kind == "retry":
            self._next_retry_poll = 0
        self._expects_work = True
        self._wake.set()

    def _start(self, pool: SlotPool, delivery: ClaimedDelivery, claimed_at: int) -> None:
        if elapsed_ms() - claimed_at > self._max_start_delay_ms:
            # The lease could expire before the attempt ends, and another sender take over.
            self.recorder.release(delivery)
            return
        self._slots.acquire(pool, delivery.endpoint_id, delivery.organization_id)
        task = asyncio.create_task(self._send(delivery))
        self._in_progress[task] = delivery
        task.add_done_callback(lambda ended: self._on_ended(ended, pool))

    def _on_ended(self, task: asyncio.Task[None], pool: SlotPool) -> None:
        delivery = self._in_progress.pop(task)
        may_wait = self._slots.release(pool, delivery.endpoint_id, delivery.organization_id)
        # A claim in progress has seen the slot in use.
        if may_wait or self._is_claiming:
            self._claim_again(pool.kind)
        if task.cancelled():
            self.recorder.release(delivery)
        elif error := task.exception():
            # Another sender retries the delivery once its lease has expired.
            _log.error("attempt crashed", exc_info=error, extra={"fields": delivery.log_fields})

    async def _send(self, delivery: ClaimedDelivery) -> None:
        try:
            attempt = await send(delivery, self._secrets, self._client, self._database_now_ms())
        except Problem as problem:
            self._skip_endpoint(delivery, problem)
        except ResourcesExhausted as error:
            self._pause(delivery, error)
        else:
            self._finish(delivery, attempt)

    def _finish(self, delivery: ClaimedDelivery, attempt: Attempt) -> None:
        self.results[attempt.error_class or _SUCCESS] += 1
        self._slots.record_duration(delivery.endpoint_id, attempt.duration_ms)
        retry_seconds = () if delivery.is_test else self._settings.webhook_retry_seconds
        outcome = decide_outcome(attempt, delivery.failures, retry_seconds)
        if outcome.due_at is not None:
            wait_ms = outcome.due_at - self._database_now_ms() + _RETRY_MARGIN_MS
            loop = asyncio.get_running_loop()
            loop.call_later(wait_ms / SECOND_MS, self._claim_again, "retry")
        self.recorder.add(FinishedAttempt(delivery, attempt, outcome))

    def _database_now_ms(self) -> int:
        return elapsed_ms() + self._clock_offset_ms

    def _skip_endpoint(self, delivery: ClaimedDelivery, problem: Problem) -> None:
        """Leaves the endpoint to other machines, which may have the key to its secret."""
        self.recorder.release(delivery)
        if delivery.endpoint_id not in self._locked_until:
            _log.warning("%s", problem.message, extra={"fields": delivery.log_fields})
        self._locked_until[delivery.endpoint_id] = elapsed_ms() + _LOCKED_MS

    def _pause(self, delivery: ClaimedDelivery, error: ResourcesExhausted) -> None:
        self.recorder.release(delivery)
        if elapsed_ms() >= self._paused_until:
            _log.warning("pausing webhooks: %s", error)
        self._paused_until = elapsed_ms() + _PAUSE_MS

    async def _wait(self) -> None:
        until = max(self._next_retry_poll, self._paused_until)
        try:
            async with asyncio.timeout((until - elapsed_ms()) / SECOND_MS):
                await self._wake.wait()
        except TimeoutError:
            self._empty_claims = 0

    async def _gather(self) -> None:
        processes = self._db.changes.processes
        if processes > 1:
            await asyncio.sleep(min(processes * _GATHER_SECONDS_PER_PROCESS, _MAX_GATHER_SECONDS))

    async def _maintain(self) -> None:
        if elapsed_ms() < self._next_maintenance:
            return
        own = [
            *(delivery.id for delivery in self._in_progress.values()),
            *self.recorder.unrecorded_ids,
        ]
        has_more = await run_maintenance(self._db, own, self._lease_ms + _MAX_CLOCK_STEP_MS)
        if elapsed_ms() >= self._next_clock_check:
            has_more |= await bring_retries_forward(self._db, self._max_wait_ms)
            self._next_clock_check = elapsed_ms() + _CLOCK_CHECK_MS
        wait_seconds = self._db.changes.poll_seconds(_MAINTENANCE_SECONDS, _MAX_MAINTENANCE_SECONDS)
        self._next_maintenance = 0 if has_more else elapsed_ms() + round(wait_seconds * SECOND_MS)
