"""What platforms told us, as rows: each delivery once, worked off by marking what to look at.

Starts nothing and believes nothing: what is marked is asked about, that is all.
"""

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.forges.hooks import HookEvent
from agentjobs.identifiers import new_id
from agentjobs.repos.sync_requests import TOPIC
from agentjobs.store.database import Database, StoreUnavailable, Transaction

MOST_AT_ONCE = 100
MOST_TRIES = 8
MOST_REMEMBERED = 10_000

# unconnected: of a repository that is nothing to us, so it is not remembered.
DeliveryStatus = Literal["new", "known", "unconnected"]

_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MOST_REASON_LENGTH = 500
_SEEN_AGAIN_MS = 60 * SECOND_MS
# Between two looks at a repository that is pushed to all the time.
_PUSH_GAP_MS = 10 * SECOND_MS
_BATCH = 500
_log = logging.getLogger(__name__)

_NAMED = (
    "connection_id = :connection_id AND disconnected_at IS NULL"
    " AND (CAST(:external_id AS TEXT) IS NULL OR external_id = :external_id)"
)


class DueHookEvent(msgspec.Struct, frozen=True):
    id: str
    connection_id: str
    hint: HookEvent
    tries: int


async def record_hook_delivery(
    db: Database, connection_id: str, delivery_id: str, hint: HookEvent | None
) -> DeliveryStatus:
    """That hooks arrive at all is noted even without a hint."""
    return await db.transact(_note_delivery, connection_id, delivery_id, hint)


async def process_hook_events(db: Database) -> int:
    """The oldest of them, a bounded number at once, so that a flood leaves time for the rest.

    How many were due. One host does it; twice would do no harm.
    """
    due = await _due_hints(db)
    if not due:
        return 0
    try:
        await db.transact(_work_off, due)
    except StoreUnavailable:
        raise
    except Exception:  # noqa: BLE001 - told apart below: one must not keep the others waiting
        for one in due:
            await _work_off_alone(db, one)
    return len(due)


async def prune_hook_events(db: Database, now: int | None = None) -> int:
    """A batch of those that are done with and of no use: told more than a day ago, or very many
    of one connection. How many."""
    before = (now_ms() if now is None else now) - DAY_MS
    rows = await db.fetch_all(
        "SELECT id FROM forge_hints WHERE received_at < :before AND due_at IS NULL"
        f" ORDER BY received_at LIMIT {_BATCH}",
        before=before,
    )
    if not rows:
        rows = await db.fetch_all(
            "SELECT h.id FROM forge_hints h JOIN (SELECT connection_id FROM forge_hints"
            "  GROUP BY connection_id HAVING COUNT(*) > :most LIMIT 1) c"
            " ON c.connection_id = h.connection_id WHERE h.due_at IS NULL"
            f" ORDER BY h.received_at LIMIT {_BATCH}",
            most=MOST_REMEMBERED,
        )
    return await db.transact(_delete, [row["id"] for row in rows]) if rows else 0


async def _note_delivery(
    tx: Transaction, connection_id: str, delivery_id: str, hint: HookEvent | None
) -> DeliveryStatus:
    now = now_ms()
    # Its row need not be written for every delivery of a busy platform.
    await tx.execute(
        "UPDATE forge_connections SET hook_seen_at = :now WHERE id = :id"
        " AND (hook_seen_at IS NULL OR hook_seen_at < :before)",
        id=connection_id,
        now=now,
        before=now - _SEEN_AGAIN_MS,
    )
    if hint is None or not await _is_connected(tx, connection_id, hint, now):
        return "unconnected"
    is_new = await tx.execute(
        "INSERT INTO forge_hints (id, connection_id, delivery_id, kind, external_id, number,"
        " received_at, due_at) VALUES (:id, :connection_id, :delivery_id, :kind, :external_id,"
        " :number, :now, :now) ON CONFLICT (connection_id, delivery_id) DO NOTHING",
        id=new_id("hnt"),
        connection_id=connection_id,
        delivery_id=delivery_id,
        kind=hint.kind,
        external_id=hint.external_id,
        number=hint.number,
        now=now,
    )
    if is_new:
        tx.announce(TOPIC)
    return "new" if is_new else "known"


async def _is_connected(tx: Transaction, connection_id: str, hint: HookEvent, now: int) -> bool:
    if hint.external_id is None:
        return True
    row = await tx.fetch_one(
        "SELECT id, hook_seen_at FROM repos WHERE connection_id = :connection_id"
        " AND external_id = :external_id AND disconnected_at IS NULL",
        connection_id=connection_id,
        external_id=hint.external_id,
    )
    if row is None:
        return False
    if (row["hook_seen_at"] or 0) < now - _SEEN_AGAIN_MS:
        await tx.execute(
            "UPDATE repos SET hook_seen_at = :now WHERE id = :id", id=row["id"], now=now
        )
    return True


async def _due_hints(db: Database) -> list[DueHookEvent]:
    rows = await db.fetch_all(
        "SELECT id, connection_id, kind, external_id, number, tries FROM forge_hints"
        f" WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT {MOST_AT_ONCE}",
        now=now_ms(),
    )
    return [
        DueHookEvent(
            row["id"],
            row["connection_id"],
            HookEvent(row["kind"], row["external_id"], row["number"]),
            row["tries"],
        )
        for row in rows
    ]


async def _work_off(tx: Transaction, due: Sequence[DueHookEvent]) -> None:
    # Many speak of the same.
    for connection_id, hint in dict.fromkeys((one.connection_id, one.hint) for one in due):
        await _mark(tx, connection_id, hint)
    await tx.execute(
        "UPDATE forge_hints SET due_at = NULL WHERE id IN (SELECT value FROM each(:ids))",
        ids=[one.id for one in due],
    )


async def _work_off_alone(db: Database, due: DueHookEvent) -> None:
    try:
        await db.transact(_work_off, [due])
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - later again, but not for ever
        _log.exception("a hint was not worked off")
        reason = f"{type(error).__name__}: {error}"[:_MOST_REASON_LENGTH]
        await db.transact(_put_off, due, reason)


async def _mark(tx: Transaction, connection_id: str, hint: HookEvent) -> None:
    named = {"connection_id": connection_id, "external_id": hint.external_id}
    now = now_ms()
    if hint.number is not None:
        # Of what is said on pull requests only ours matter, and of those not what is over.
        is_ours = await tx.execute(
            "UPDATE pulls SET told_at = :now WHERE number = :number AND state <> 'merged'"
            f" AND repo_id IN (SELECT id FROM repos WHERE {_NAMED})",
            number=hint.number,
            now=now,
            **named,
        )
        if not is_ours:
            return
    else:
        await tx.execute(f"UPDATE repos SET told_at = :now WHERE {_NAMED}", now=now, **named)
    if hint.kind == "repository":
        # It may well be that what was in the way is over.
        await tx.execute(
            "UPDATE forge_connections SET resting_until = NULL WHERE id = :id", id=connection_id
        )
    # A repository in trouble keeps its backoff whatever is pushed to it.
    only = "" if hint.kind == "repository" else " AND sync_failures = 0"
    await tx.execute(
        "UPDATE repos SET sync_due_at = CASE WHEN synced_at + :gap > :now THEN synced_at + :gap"
        f" ELSE CAST(:now AS BIGINT) END WHERE {_NAMED} AND sync_due_at > :now{only}",
        now=now,
        gap=_PUSH_GAP_MS if hint.kind == "push" else 0,
        **named,
    )


async def _put_off(tx: Transaction, due: DueHookEvent, reason: str) -> None:
    tries = due.tries + 1
    backoff = _FIRST_BACKOFF_MS * 2 ** min(tries - 1, MOST_TRIES)
    await tx.execute(
        "UPDATE forge_hints SET due_at = :due_at, error = :reason, tries = :tries WHERE id = :id",
        id=due.id,
        due_at=None if tries >= MOST_TRIES else now_ms() + backoff,
        reason=reason,
        tries=tries,
    )


async def _delete(tx: Transaction, ids: list[str]) -> int:
    return await tx.execute(
        "DELETE FROM forge_hints WHERE id IN (SELECT value FROM each(:ids))", ids=ids
    )
