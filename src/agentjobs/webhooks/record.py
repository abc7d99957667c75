"""Writing down what attempts came to: the log, the delivery's state and the endpoint's health."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.clock import DAY_MS
from agentjobs.store.batch_insert import ManyRows
from agentjobs.store.database import Transaction
from agentjobs.webhooks.claim import HEALTH_MS
from agentjobs.webhooks.endpoints import disable
from agentjobs.webhooks.events import happened_in
from agentjobs.webhooks.model import Attempt, ClaimedDelivery, DisabledReason
from agentjobs.webhooks.retry_policy import Verdict

# What is not certain to be stored is stored again: twice must be as good as once.
_LOGGED = (
    "delivery_id, id, at, duration_ms, status_code, error_class, error, address, request_headers,"
    " response_headers, response_body"
)
_LOG = ManyRows(
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
    one=f"INSERT INTO delivery_attempts ({_LOGGED}) VALUES (:delivery_id, :id, :at, :duration_ms,"
    " :status_code, :error_class, :error, :address, :request_headers, :response_headers,"
    " :response_body) ON CONFLICT DO NOTHING",
    many=f"INSERT INTO delivery_attempts ({_LOGGED}) SELECT {_LOGGED} FROM {{rows}}"
    " ON CONFLICT DO NOTHING",
)
_SETTLE = ManyRows(
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
# In one order for all senders, or two of them could wait for each other.
_LOCK = (
    "SELECT id FROM webhook_endpoints WHERE id IN (SELECT value FROM each(:ids))"
    " ORDER BY id /*postgresql FOR UPDATE */"
)
# The reason of one that is disabled stays what it was.
_SUCCEEDED = (
    "UPDATE webhook_endpoints SET last_success_at = :at,"
    " failing_since = CASE WHEN disabled_at IS NULL THEN NULL ELSE failing_since END WHERE id IN"
    " (SELECT id FROM webhook_endpoints WHERE id IN (SELECT value FROM each(:ids))"
    "  AND (failing_since IS NOT NULL OR last_success_at IS NULL OR last_success_at < :before)"
    "  ORDER BY id /*postgresql FOR UPDATE */)"
)
_FAILED = (
    "UPDATE webhook_endpoints SET last_failure_at = :at,"
    " failing_since = COALESCE(failing_since, :at) WHERE id = :id"
    " RETURNING failing_since, COALESCE(disabled_at, removed_at) AS closed_at"
)


class Finished(msgspec.Struct, frozen=True):
    """An attempt that ended, and what follows from it."""

    delivery: ClaimedDelivery
    attempt: Attempt
    verdict: Verdict

    @property
    def ended_at(self) -> int:
        return self.attempt.at + self.attempt.duration_ms


class Disabled(msgspec.Struct, frozen=True):
    """An endpoint that was taken out of use by what its attempts came to."""

    endpoint_id: str
    reason: DisabledReason


async def record(
    tx: Transaction, finished: Sequence[Finished], *, owner: str, disable_days: float
) -> list[Disabled]:
    if not finished:
        return []
    await _LOG.run(tx, [_log_row(one) for one in finished])
    closed: set[str] = set()
    disabled = await _note_health(tx, finished, disable_days, closed)
    await _SETTLE.run(tx, [_settled(one, owner, closed) for one in finished])
    tx.announce(*{happened_in(one.delivery.organization_id) for one in finished})
    return disabled


async def _note_health(
    tx: Transaction, finished: Sequence[Finished], disable_days: float, closed: set[str]
) -> list[Disabled]:
    """Adds to `closed` the endpoints that are in use no longer."""
    healthy = {one.delivery.endpoint_id for one in finished if one.attempt.succeeded}
    failing: dict[str, list[Finished]] = {}
    for one in finished:
        if not one.attempt.succeeded:
            failing.setdefault(one.delivery.endpoint_id, []).append(one)
    if failing:
        await tx.fetch_all(_LOCK, ids=sorted(healthy | failing.keys()))
    untold = {
        one.delivery.endpoint_id
        for one in finished
        if one.attempt.succeeded and not one.delivery.is_known_healthy
    }
    if untold:
        at = max(one.ended_at for one in finished)
        await tx.execute(_SUCCEEDED, ids=sorted(untold), at=at, before=at - HEALTH_MS)
    disabled: list[Disabled] = []
    for endpoint_id, failures in sorted(failing.items()):
        reason = None
        # Failures beside a success are no time of failures.
        if endpoint_id not in healthy:
            reason = await _note_failures(tx, endpoint_id, failures, disable_days, closed)
        reason = _asked_for(failures) or reason
        if reason is not None:
            closed.add(endpoint_id)
            if await disable(tx, endpoint_id, reason, failures[-1].ended_at):
                disabled.append(Disabled(endpoint_id, reason))
    return disabled


async def _note_failures(
    tx: Transaction,
    endpoint_id: str,
    failures: Sequence[Finished],
    disable_days: float,
    closed: set[str],
) -> DisabledReason | None:
    """The reason to disable the endpoint, if it has failed for too long now."""
    at = max(one.ended_at for one in failures)
    row = await tx.fetch_one(_FAILED, id=endpoint_id, at=at)
    if row is None or row["closed_at"] is not None:
        closed.add(endpoint_id)
        return None
    is_given_up = any(one.verdict.status == "failed" for one in failures)
    is_long = at - row["failing_since"] >= disable_days * DAY_MS
    return "failing" if is_given_up and is_long else None


def _asked_for(failures: Sequence[Finished]) -> DisabledReason | None:
    return next((one.verdict.disable for one in failures if one.verdict.disable), None)


def _log_row(one: Finished) -> Mapping[str, Any]:
    attempt = one.attempt
    return {
        "delivery_id": one.delivery.id,
        # The claim it was made under: no other attempt has it, and it grows.
        "id": f"{one.delivery.fence:012}",
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


def _settled(one: Finished, owner: str, closed: set[str]) -> Mapping[str, Any]:
    """To an endpoint that was closed meanwhile nothing is tried again."""
    is_over = one.delivery.endpoint_id in closed and one.verdict.status == "pending"
    failures = one.delivery.failures + (0 if one.attempt.succeeded else 1)
    return {
        "delivery_id": one.delivery.id,
        "fence": one.delivery.fence,
        "owner": owner,
        "status": "failed" if is_over else one.verdict.status,
        "due_at": one.ended_at if is_over else one.verdict.due_at or one.ended_at,
        "failures": failures,
    }
