"""Records finished attempts in batches: the log, the delivery's status, the endpoint's health.

While one batch is being committed, the next one gathers. What is not known to be stored is kept.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Database, Transaction
from agentjobs.store.insert_statement import insert_statement
from agentjobs.webhooks.endpoints import disable
from agentjobs.webhooks.events import TOPIC, activity_topic
from agentjobs.webhooks.model import Attempt, ClaimedDelivery, DisabledReason
from agentjobs.webhooks.queue import HEALTH_INTERVAL_MS, release
from agentjobs.webhooks.retries import AttemptOutcome
from agentjobs_runtime.clock import DAY_MS

_log = logging.getLogger(__name__)

# After an uncertain commit the same batch is written again, so each statement is idempotent.
_LOG = insert_statement(
    "delivery_attempts",
    {
        "delivery_id": "TEXT",
        "id": "TEXT",
        "at": "BIGINT",
        "duration_ms": "BIGINT",
        "status_code": "BIGINT",
        "error_class": "TEXT",
        "error": "TEXT",
        "address": "TEXT",
        "request_headers": "TEXT",
        "response_headers": "TEXT",
        "response_body": "BYTEA",
    },
)
_SETTLE = BatchStatement(
    {
        "delivery_id": "TEXT",
        "fence": "BIGINT",
        "owner": "TEXT",
        "status": "TEXT",
        "due_at": "BIGINT",
        "failures": "BIGINT",
    },
    one="UPDATE deliveries SET status = :status, due_at = :due_at, attempts = attempts + 1,"
    " failures = :failures, lease_owner = NULL, lease_expires_at = NULL"
    " WHERE id = :delivery_id AND fence = :fence AND lease_owner = :owner",
    many="UPDATE deliveries SET status = v.status, due_at = v.due_at, attempts = attempts + 1,"
    " failures = v.failures, lease_owner = NULL, lease_expires_at = NULL FROM {rows}"
    " WHERE deliveries.id = v.delivery_id AND deliveries.fence = v.fence"
    " AND deliveries.lease_owner = v.owner",
)
# All senders lock in the same order, so that they cannot deadlock.
_LOCK_ENDPOINTS = (
    "SELECT id FROM webhook_endpoints WHERE id IN (SELECT value FROM each(:ids))"
    " ORDER BY id /*postgresql FOR UPDATE */"
)
# A disabled endpoint keeps the start of its failures, which is part of the reason.
_RECORD_SUCCESS = (
    "UPDATE webhook_endpoints SET last_success_at = :at,"
    " failing_since = CASE WHEN disabled_at IS NULL THEN NULL ELSE failing_since END WHERE id IN"
    " (SELECT id FROM webhook_endpoints WHERE id IN (SELECT value FROM each(:ids))"
    "  AND (failing_since IS NOT NULL OR last_success_at IS NULL OR last_success_at < :before)"
    "  ORDER BY id /*postgresql FOR UPDATE */)"
)
_RECORD_FAILURE = (
    "UPDATE webhook_endpoints SET last_failure_at = :at,"
    " failing_since = COALESCE(failing_since, :at) WHERE id = :id"
    " RETURNING failing_since, COALESCE(disabled_at, removed_at) AS closed_at"
)


class FinishedAttempt(msgspec.Struct, frozen=True):
    delivery: ClaimedDelivery
    attempt: Attempt
    outcome: AttemptOutcome

    @property
    def ended_at(self) -> int:
        return self.attempt.at + self.attempt.duration_ms


class _Batch(msgspec.Struct, frozen=True):
    finished: tuple[FinishedAttempt, ...]
    released: tuple[ClaimedDelivery, ...]


class Recorder:
    def __init__(
        self, db: Database, owner: str, disable_days: float, on_recorded: Callable[[], None]
    ) -> None:
        self._db = db
        self._owner = owner
        self._disable_days = disable_days
        self._on_recorded = on_recorded
        self._finished: list[FinishedAttempt] = []
        self._released: list[ClaimedDelivery] = []
        self._wake = asyncio.Event()

    def add(self, finished: FinishedAttempt) -> None:
        self._finished.append(finished)
        self._wake.set()

    def release(self, delivery: ClaimedDelivery) -> None:
        """The delivery was not sent: any sender may claim it again."""
        self._released.append(delivery)
        self._wake.set()

    @property
    def unrecorded_ids(self) -> list[str]:
        return [
            *(finished.delivery.id for finished in self._finished),
            *(delivery.id for delivery in self._released),
        ]

    async def run(self) -> None:
        """Runs forever. If it fails, the next run records what is left."""
        self._wake.set()
        while True:
            await self._wake.wait()
            await self.flush()
            self._on_recorded()

    async def flush(self) -> None:
        self._wake.clear()
        batch = await self._db.transact(self._write)
        del self._finished[: len(batch.finished)], self._released[: len(batch.released)]
        if batch.released:
            # This sender could not send them.
            self._db.changes.pass_on(TOPIC)
        _log_failures(batch)

    async def _write(self, tx: Transaction) -> _Batch:
        finished, released = tuple(self._finished), tuple(self._released)
        await record(tx, finished, owner=self._owner, disable_days=self._disable_days)
        if released:
            await release(tx, released, self._owner)
        return _Batch(finished, released)


async def record(
    tx: Transaction, finished: Sequence[FinishedAttempt], *, owner: str, disable_days: float
) -> None:
    if not finished:
        return
    await _LOG.run(tx, [_log_row(result) for result in finished])
    closed: set[str] = set()
    await _record_health(tx, finished, disable_days, closed)
    await _SETTLE.run(tx, [_settled_row(result, owner, closed) for result in finished])
    tx.announce(*{activity_topic(result.delivery.organization_id) for result in finished})


async def _record_health(
    tx: Transaction, finished: Sequence[FinishedAttempt], disable_days: float, closed: set[str]
) -> None:
    """Adds endpoints that are disabled or removed to `closed`."""
    succeeded = {result.delivery.endpoint_id for result in finished if result.attempt.succeeded}
    failures_of: dict[str, list[FinishedAttempt]] = {}
    for result in finished:
        if not result.attempt.succeeded:
            failures_of.setdefault(result.delivery.endpoint_id, []).append(result)
    if failures_of:
        await tx.fetch_all(_LOCK_ENDPOINTS, ids=sorted(succeeded | failures_of.keys()))
    await _record_successes(tx, finished)
    for endpoint_id, failures in sorted(failures_of.items()):
        reason = None
        # A success in the same batch outweighs the failures.
        if endpoint_id not in succeeded:
            reason = await _record_failures(tx, endpoint_id, failures, disable_days, closed)
        reason = _requested_disable(failures) or reason
        if reason is not None:
            closed.add(endpoint_id)
            if await disable(tx, endpoint_id, reason, failures[-1].ended_at):
                fields = {"endpoint_id": endpoint_id, "reason": reason}
                _log.warning("webhook endpoint disabled", extra={"fields": fields})


async def _record_successes(tx: Transaction, finished: Sequence[FinishedAttempt]) -> None:
    endpoint_ids = {
        result.delivery.endpoint_id
        for result in finished
        if result.attempt.succeeded and not result.delivery.is_known_healthy
    }
    if endpoint_ids:
        at = max(result.ended_at for result in finished)
        before = at - HEALTH_INTERVAL_MS
        await tx.execute(_RECORD_SUCCESS, ids=sorted(endpoint_ids), at=at, before=before)


async def _record_failures(
    tx: Transaction,
    endpoint_id: str,
    failures: Sequence[FinishedAttempt],
    disable_days: float,
    closed: set[str],
) -> DisabledReason | None:
    """Returns the reason to disable the endpoint if it has been failing for too long."""
    at = max(failure.ended_at for failure in failures)
    row = await tx.fetch_one(_RECORD_FAILURE, id=endpoint_id, at=at)
    if row is None or row["closed_at"] is not None:
        closed.add(endpoint_id)
        return None
    has_failed_delivery = any(failure.outcome.status == "failed" for failure in failures)
    is_too_long = at - row["failing_since"] >= disable_days * DAY_MS
    return "failing" if has_failed_delivery and is_too_long else None


def _requested_disable(failures: Sequence[FinishedAttempt]) -> DisabledReason | None:
    return next((failure.outcome.disable for failure in failures if failure.outcome.disable), None)


def _log_row(finished: FinishedAttempt) -> Mapping[str, Any]:
    attempt = finished.attempt
    return {
        "delivery_id": finished.delivery.id,
        # The fence of the claim: unique to this attempt, and increasing.
        "id": f"{finished.delivery.fence:012}",
        "at": attempt.at,
        "duration_ms": attempt.duration_ms,
        "status_code": attempt.status_code,
        "error_class": attempt.error_class,
        "error": attempt.error,
        "address": attempt.address,
        "request_headers": msgspec.json.encode(attempt.request_headers).decode(),
        "response_headers": msgspec.json.encode(attempt.response_headers).decode(),
        "response_body": attempt.response_body,
    }


def _settled_row(finished: FinishedAttempt, owner: str, closed: set[str]) -> Mapping[str, Any]:
    """A delivery to an endpoint that was closed in the meantime is not retried."""
    delivery, outcome = finished.delivery, finished.outcome
    is_cut_short = delivery.endpoint_id in closed and outcome.status == "pending"
    return {
        "delivery_id": delivery.id,
        "fence": delivery.fence,
        "owner": owner,
        "status": "failed" if is_cut_short else outcome.status,
        "due_at": finished.ended_at if is_cut_short else outcome.due_at or finished.ended_at,
        "failures": delivery.failures + (0 if finished.attempt.succeeded else 1),
    }


def _log_failures(batch: _Batch) -> None:
    for finished in batch.finished:
        if finished.outcome.status == "failed":
            fields = {**finished.delivery.log_fields, "error_class": finished.attempt.error_class}
            _log.info("delivery failed permanently", extra={"fields": fields})
