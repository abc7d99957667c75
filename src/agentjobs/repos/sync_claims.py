"""When a platform's repository is looked at: due times are queue, lease and backoff at once.

What is found there is `platform_sync`'s matter.
"""

from collections.abc import Collection

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.forges.protocol import RepoAddress
from agentjobs.store.database import Database, Row, Transaction

LEASE_MS = 300 * SECOND_MS

_FIRST_BACKOFF_MS = 30 * SECOND_MS
_MOST_BACKOFF_MS = 3_600 * SECOND_MS
# So much rarer is a platform asked that tells us by itself.
_TOLD_FACTOR = 12
_MOST_ERROR_LENGTH = 1_000


class PlatformRepo(msgspec.Struct, frozen=True, kw_only=True):
    """A connected repository that a platform keeps."""

    id: str
    organization_id: str
    organization: str
    platform: str
    connection_id: str
    external_id: str
    full_name: str
    default_branch: str
    head_commit: str

    @property
    def address(self) -> RepoAddress:
        return RepoAddress(self.organization, self.full_name, self.id, self.external_id)


class DueSync(msgspec.Struct, frozen=True, kw_only=True):
    """`error` and `connection_error` are those of the last time."""

    repo: PlatformRepo
    claimed_at: int
    failures: int
    error: str | None
    synced_at: int | None
    connection_error: str | None
    hook_seen_at: int | None


async def claim_sync_due(
    db: Database, busy: Collection[str] = (), crowded: Collection[str] = ()
) -> DueSync | None:
    """The one that has waited longest; it is due again in 5 minutes if we are never heard of.

    Repositories in `busy` and connections in `crowded` are left out.
    """
    return await db.transact(_claim, list(busy), list(crowded))


class SyncClaim:
    """What its holder may write. Whoever makes the repository due meanwhile is not overruled."""

    def __init__(self, db: Database, due: DueSync) -> None:
        self.due = due
        self._db = db
        self._until = due.claimed_at + LEASE_MS

    async def renew(self) -> None:
        until = now_ms() + LEASE_MS
        if await self._db.transact(_renew, self.due.repo.id, self._until, until):
            self._until = until

    async def finish(self, next_due_at: int, note: str | None) -> None:
        """`note`: what keeps it from being of use though all went well."""
        await self._db.transact(_finish, self.due, self._until, next_due_at, note)

    async def fail(self, reason: str, *, is_gone: bool = False) -> None:
        await self._db.transact(_fail, self.due, self._until, reason, is_gone=is_gone)


def next_due_at(due: DueSync, poll_seconds: float, now: int) -> int:
    is_told = due.hook_seen_at is not None and due.hook_seen_at > now - DAY_MS
    return now + int(poll_seconds * SECOND_MS) * (_TOLD_FACTOR if is_told else 1)


def backoff_ms(failures: int) -> int:
    """After so many failures in a row, this one not counted."""
    return int(min(_FIRST_BACKOFF_MS * 2 ** min(failures, 10), _MOST_BACKOFF_MS))


async def postpone_connection(db: Database, due: DueSync) -> None:
    """Its platform does not answer: the others need not find that out one by one."""
    await db.transact(_postpone, due.repo.connection_id, now_ms() + backoff_ms(due.failures))


async def fail_connection(db: Database, due: DueSync, reason: str) -> None:
    """Its credential is not accepted: that goes for all its repositories."""
    await db.transact(_fail_together, due, reason)


async def _claim(tx: Transaction, busy: list[str], crowded: list[str]) -> DueSync | None:
    now = now_ms()
    row = await tx.fetch_one(
        "SELECT r.id, r.organization_id, o.name AS organization, r.platform, r.connection_id,"
        " r.external_id, r.full_name, r.default_branch, r.head_commit, r.sync_failures,"
        " r.sync_error, r.synced_at, c.error AS connection_error, c.hook_seen_at FROM repos r"
        " JOIN organizations o ON o.id = r.organization_id"
        " JOIN forge_connections c ON c.id = r.connection_id"
        " WHERE r.sync_due_at IS NOT NULL AND r.sync_due_at <= :now AND r.disconnected_at IS NULL"
        " AND r.id NOT IN (SELECT value FROM each(:busy))"
        " AND r.connection_id NOT IN (SELECT value FROM each(:crowded))"
        " ORDER BY r.sync_due_at LIMIT 1 /*postgresql FOR UPDATE OF r SKIP LOCKED */",
        now=now,
        busy=busy,
        crowded=crowded,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE repos SET sync_due_at = :until WHERE id = :id", id=row["id"], until=now + LEASE_MS
    )
    return _due(row, now)


def _due(row: Row, now: int) -> DueSync:
    return DueSync(
        repo=PlatformRepo(**{name: row[name] for name in PlatformRepo.__struct_fields__}),
        claimed_at=now,
        failures=row["sync_failures"],
        error=row["sync_error"],
        synced_at=row["synced_at"],
        connection_error=row["connection_error"],
        hook_seen_at=row["hook_seen_at"],
    )


async def _renew(tx: Transaction, repo_id: str, held: int, until: int) -> bool:
    changed = await tx.execute(
        "UPDATE repos SET sync_due_at = :until WHERE id = :id AND sync_due_at = :held",
        id=repo_id,
        held=held,
        until=until,
    )
    return bool(changed)


async def _finish(
    tx: Transaction, due: DueSync, held: int, next_due_at: int, note: str | None
) -> None:
    await tx.execute(
        "UPDATE repos SET sync_failures = 0, sync_error = :note, synced_at = :synced_at,"
        " sync_due_at = CASE WHEN sync_due_at = :held THEN :due_at ELSE sync_due_at END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=due.repo.id,
        held=held,
        due_at=next_due_at,
        # What happened after the claim may not have been seen.
        synced_at=due.claimed_at,
        note=note,
    )
    # Only what was written down with the same failure; a check may have found more.
    if due.connection_error is not None and due.connection_error == due.error:
        await tx.execute(
            "UPDATE forge_connections SET error = NULL, checked_at = :now"
            " WHERE id = :id AND error = :error",
            id=due.repo.connection_id,
            error=due.error,
            now=now_ms(),
        )


async def _fail(tx: Transaction, due: DueSync, held: int, reason: str, *, is_gone: bool) -> None:
    await tx.execute(
        "UPDATE repos SET sync_failures = sync_failures + 1, sync_error = :reason,"
        " sync_due_at = CASE WHEN sync_due_at = :held THEN :due_at ELSE sync_due_at END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=due.repo.id,
        held=held,
        due_at=now_ms() + backoff_ms(due.failures),
        reason=reason[:_MOST_ERROR_LENGTH],
    )
    if is_gone:
        # There is nothing to work on: no job is accepted until it is back and indexed.
        await tx.execute(
            "UPDATE repos SET index_status = 'indexing', index_due_at = NULL WHERE id = :id",
            id=due.repo.id,
        )
        await tx.invalidate("repos")
    await tx.execute(
        "UPDATE repos SET index_error = :reason WHERE id = :id AND index_status = 'indexing'"
        " AND index_due_at IS NULL",
        id=due.repo.id,
        reason=reason[:_MOST_ERROR_LENGTH],
    )


async def _postpone(tx: Transaction, connection_id: str, due_at: int) -> None:
    await tx.execute(
        "UPDATE repos SET sync_due_at = :due_at WHERE connection_id = :connection_id"
        " AND disconnected_at IS NULL AND sync_due_at < :due_at",
        connection_id=connection_id,
        due_at=due_at,
    )


async def _fail_together(tx: Transaction, due: DueSync, reason: str) -> None:
    cut = reason[:_MOST_ERROR_LENGTH]
    now = now_ms()
    await tx.execute(
        "UPDATE repos SET sync_failures = :failures, sync_error = :reason, sync_due_at = :due_at"
        " WHERE connection_id = :connection_id AND disconnected_at IS NULL",
        connection_id=due.repo.connection_id,
        failures=due.failures + 1,
        reason=cut,
        due_at=now + backoff_ms(due.failures),
    )
    await tx.execute(
        "UPDATE forge_connections SET error = :reason, checked_at = :now"
        " WHERE id = :id AND removed_at IS NULL",
        id=due.repo.connection_id,
        reason=cut,
        now=now,
    )
