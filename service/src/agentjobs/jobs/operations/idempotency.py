"""Idempotency keys: the same request again returns the receipt of the first."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import msgspec

from agentjobs.jobs.model import Receipt
from agentjobs.store.database import Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem


class IdempotencyClaim(msgspec.Struct, frozen=True):
    key: str
    body_hash: bytes


def first_call(
    in_flight: set[tuple[str, str]], organization_id: str, claim: IdempotencyClaim | None
) -> AbstractContextManager[None]:
    """Refuses a second request with the same key while this process handles the first."""
    return nullcontext() if claim is None else _in_flight(in_flight, organization_id, claim)


@contextmanager
def _in_flight(
    in_flight: set[tuple[str, str]], organization_id: str, claim: IdempotencyClaim
) -> Iterator[None]:
    entry = (organization_id, claim.key)
    if entry in in_flight:
        raise in_progress()
    in_flight.add(entry)
    try:
        yield
    finally:
        in_flight.discard(entry)


async def find_receipt(
    tx: Transaction, organization_id: str, claim: IdempotencyClaim | None
) -> Receipt | None:
    """The receipt of the first request with this key; refuses the key with another body."""
    if claim is None:
        return None
    await _lock(tx, organization_id, claim.key)
    row = await tx.fetch_one(
        "SELECT body_hash, response FROM idempotency_keys"
        " WHERE organization_id = :organization_id AND key = :key",
        organization_id=organization_id,
        key=claim.key,
    )
    if row is None:
        return None
    if bytes(row["body_hash"]) != claim.body_hash:
        raise Problem(
            "idempotency_key_reused",
            "This Idempotency-Key was used with another body; use a new key for a new request.",
        )
    return msgspec.json.decode(bytes(row["response"]), type=Receipt)


async def store_receipt(
    tx: Transaction, organization_id: str, claim: IdempotencyClaim | None, receipt: Receipt
) -> None:
    if claim is None:
        return
    await tx.execute(
        "INSERT INTO idempotency_keys (organization_id, key, body_hash, response, created_at)"
        f" VALUES (:organization_id, :key, :body_hash, :response, {DATABASE_NOW})",
        organization_id=organization_id,
        key=claim.key,
        body_hash=claim.body_hash,
        response=msgspec.json.encode(receipt),
        now=now_ms(),
    )


def in_progress() -> Problem:
    return Problem(
        "idempotency_in_progress",
        "The first request with this Idempotency-Key is still running; try again in a moment.",
        retry_after_seconds=1,
    )


async def _lock(tx: Transaction, organization_id: str, key: str) -> None:
    """Another server may be handling the first request. SQLite has one writer and needs no lock."""
    if tx.engine != "postgresql":
        return
    row = await tx.fetch_one(
        "SELECT pg_try_advisory_xact_lock(hashtextextended(CAST(:scope AS TEXT), 0)) AS locked",
        scope=f"{organization_id}/{key}",
    )
    if row is None or not row["locked"]:
        raise in_progress()
