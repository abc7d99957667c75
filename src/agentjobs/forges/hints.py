"""What platforms told us, as rows: each delivery once, worked off by making repositories due.

Starts nothing and believes nothing: a repository that is due is looked at, that is all.
"""

from collections.abc import Mapping

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.forges.hooks import Hint, HintKind
from agentjobs.identifiers import new_id
from agentjobs.store.database import Database, Transaction

MOST_TRIES = 8
TOPIC = "forges"

_LEASE_MS = 60 * SECOND_MS
_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MOST_REASON_LENGTH = 500
_SEEN_AGAIN_MS = 60 * SECOND_MS
# Between two looks at a repository that is pushed to all the time.
_PUSH_GAP_MS = 10 * SECOND_MS
_BATCH = 500

# A repository in trouble keeps its backoff whatever is pushed to it. Of what is said on pull
# requests only ours matter.
_WELL = " AND sync_failures = 0"
_OURS = (
    f"{_WELL} AND EXISTS (SELECT 1 FROM pulls p WHERE p.repo_id = repos.id AND p.number = :number)"
)
_CONDITIONS: Mapping[HintKind, str] = {
    "push": _WELL,
    "pull": _OURS,
    "comment": _OURS,
    "repository": "",
}


class ClaimedHint(msgspec.Struct, frozen=True):
    id: str
    connection_id: str
    hint: Hint
    tries: int


async def note_delivery(
    db: Database, connection_id: str, delivery_id: str, hint: Hint | None
) -> bool:
    """False: it was told before. That hooks arrive at all is noted even without a hint."""
    return await db.transact(_note_delivery, connection_id, delivery_id, hint)


async def claim_hint(db: Database) -> ClaimedHint | None:
    """The oldest one; it is due again if we are never heard of."""
    return await db.transact(_claim_hint)


async def finish_hint(db: Database, claimed: ClaimedHint) -> int:
    """The repositories it names are due, and it is done with, at once. How many those are."""
    return await db.transact(_finish_hint, claimed)


async def fail_hint(db: Database, claimed: ClaimedHint, reason: str) -> None:
    """Later again, but not for ever."""
    await db.transact(_fail_hint, claimed, reason[:_MOST_REASON_LENGTH])


async def prune_hints(db: Database, now: int | None = None) -> int:
    """A batch of those that were told more than a day ago and are done with. How many."""
    before = (now_ms() if now is None else now) - DAY_MS
    rows = await db.fetch_all(
        "SELECT id FROM forge_hints WHERE received_at < :before AND due_at IS NULL"
        f" ORDER BY received_at LIMIT {_BATCH}",
        before=before,
    )
    return await db.transact(_delete, [row["id"] for row in rows]) if rows else 0


async def _note_delivery(
    tx: Transaction, connection_id: str, delivery_id: str, hint: Hint | None
) -> bool:
    now = now_ms()
    # Its row need not be written for every delivery of a busy platform.
    await tx.execute(
        "UPDATE forge_connections SET hook_seen_at = :now WHERE id = :id"
        " AND (hook_seen_at IS NULL OR hook_seen_at < :before)",
        id=connection_id,
        now=now,
        before=now - _SEEN_AGAIN_MS,
    )
    if hint is None:
        return True
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
    return bool(is_new)


async def _claim_hint(tx: Transaction) -> ClaimedHint | None:
    now = now_ms()
    row = await tx.fetch_one(
        "SELECT id, connection_id, kind, external_id, number, tries FROM forge_hints"
        " WHERE due_at IS NOT NULL AND due_at <= :now"
        " ORDER BY due_at LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE forge_hints SET due_at = :until, tries = tries + 1 WHERE id = :id",
        id=row["id"],
        until=now + _LEASE_MS,
    )
    hint = Hint(row["kind"], row["external_id"], row["number"])
    return ClaimedHint(row["id"], row["connection_id"], hint, row["tries"] + 1)


async def _finish_hint(tx: Transaction, claimed: ClaimedHint) -> int:
    await tx.execute("UPDATE forge_hints SET due_at = NULL WHERE id = :id", id=claimed.id)
    hint = claimed.hint
    gap = _PUSH_GAP_MS if hint.kind == "push" else 0
    number = {} if hint.number is None else {"number": hint.number}
    return await tx.execute(
        "UPDATE repos SET sync_due_at = CASE WHEN synced_at + :gap > :now THEN synced_at + :gap"
        " ELSE CAST(:now AS BIGINT) END"
        " WHERE connection_id = :connection_id AND disconnected_at IS NULL"
        " AND (CAST(:external_id AS TEXT) IS NULL OR external_id = :external_id)"
        f" AND sync_due_at > :now{_CONDITIONS[hint.kind]}",
        connection_id=claimed.connection_id,
        external_id=hint.external_id,
        now=now_ms(),
        gap=gap,
        **number,
    )


async def _fail_hint(tx: Transaction, claimed: ClaimedHint, reason: str) -> None:
    is_over = claimed.tries >= MOST_TRIES
    backoff = _FIRST_BACKOFF_MS * 2 ** min(claimed.tries - 1, MOST_TRIES)
    await tx.execute(
        "UPDATE forge_hints SET due_at = :due_at, error = :reason WHERE id = :id",
        id=claimed.id,
        due_at=None if is_over else now_ms() + backoff,
        reason=reason,
    )


async def _delete(tx: Transaction, ids: list[str]) -> int:
    return await tx.execute(
        "DELETE FROM forge_hints WHERE id IN (SELECT value FROM each(:ids))", ids=ids
    )
