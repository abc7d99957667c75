"""When a platform's repository is looked at: due times are queue, lease and backoff at once.

What is found there is `platform_sync`'s matter.
"""

from collections.abc import Collection

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.forges.protocol import RepoAddress
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.leases import DueColumn, Lease, backoff_ms

DUE = DueColumn("repos", "id", "sync_due_at", 300 * SECOND_MS)

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
    """`error` and `connection_error` are those of the last time.

    `is_whole`: all of it is to be read; else what the platform told of, which is the repository
    itself (`is_told`), some of its pull requests (`has_told_pulls`), or both.
    """

    repo: PlatformRepo
    claimed_at: int
    lease_until: int
    failures: int
    error: str | None
    connection_error: str | None
    # When a hook spoke of this repository, with the secret that the connection has now.
    hook_seen_at: int | None
    whole_due_at: int | None
    is_told: bool
    has_told_pulls: bool

    @property
    def is_whole(self) -> bool:
        return self.whole_due_at is None or self.whole_due_at <= self.claimed_at

    @property
    def asks_repository(self) -> bool:
        """Where something is said of it already, that is to be true still."""
        is_named = self.is_told or not self.has_told_pulls
        return self.is_whole or is_named or self.error is not None


async def claim_sync_due(
    db: Database, busy: Collection[str] = (), crowded: Collection[str] = ()
) -> DueSync | None:
    """The one that has waited longest; it is due again in 5 minutes if we are never heard of.

    Repositories in `busy`, and connections and organizations in `crowded`, are left out.
    """
    return await db.transact(_claim, list(busy), list(crowded))


class SyncClaim:
    """What its holder may write. Whoever makes the repository due meanwhile is not overruled."""

    def __init__(self, db: Database, due: DueSync) -> None:
        self.due = due
        self._db = db
        self._lease = Lease(db, DUE, due.repo.id, due.lease_until)

    async def renew(self) -> bool:
        """True even if the repository was made due meanwhile: the sync goes on."""
        await self._lease.renew()
        return True

    async def finish(
        self, whole_due_at: int, note: str | None, *, again_at: int | None = None
    ) -> None:
        """`note`: what is in the way though all went well; `again_at`: earlier than the whole."""
        due_at = whole_due_at if again_at is None else min(again_at, whole_due_at)
        await self._db.transact(_finish, self.due, self._lease.until, whole_due_at, due_at, note)

    async def fail(self, reason: str) -> None:
        await self._db.transact(_fail, self.due, self._lease.until, reason)


def next_due_at(due: DueSync, poll_seconds: float, now: int) -> int:
    is_told = due.hook_seen_at is not None and due.hook_seen_at > now - DAY_MS
    return now + int(poll_seconds * SECOND_MS) * (_TOLD_FACTOR if is_told else 1)


def sync_backoff_ms(failures: int) -> int:
    """The wait after a failure that `failures` others preceded in a row."""
    return backoff_ms(failures, _FIRST_BACKOFF_MS, _MOST_BACKOFF_MS)


async def _claim(tx: Transaction, busy: list[str], crowded: list[str]) -> DueSync | None:
    now = now_ms()
    row = await tx.fetch_one(
        "SELECT r.id, r.organization_id, o.name AS organization, r.platform, r.connection_id,"
        " r.external_id, r.full_name, r.default_branch, r.head_commit, r.sync_failures,"
        " r.sync_error, r.whole_due_at, r.told_at, c.error AS connection_error,"
        " CASE WHEN c.hook_seen_at IS NOT NULL THEN r.hook_seen_at END AS hook_seen_at,"
        " EXISTS (SELECT 1 FROM pulls p WHERE p.repo_id = r.id AND p.told_at IS NOT NULL"
        "  AND p.state <> 'merged') AS has_told_pulls"
        " FROM repos r JOIN organizations o ON o.id = r.organization_id"
        " JOIN forge_connections c ON c.id = r.connection_id"
        " WHERE r.sync_due_at IS NOT NULL AND r.sync_due_at <= :now AND r.disconnected_at IS NULL"
        " AND (c.resting_until IS NULL OR c.resting_until <= :now)"
        " AND r.id NOT IN (SELECT value FROM each(:busy))"
        " AND r.connection_id NOT IN (SELECT value FROM each(:crowded))"
        " AND r.organization_id NOT IN (SELECT value FROM each(:crowded))"
        " ORDER BY r.sync_due_at LIMIT 1 /*postgresql FOR UPDATE OF r SKIP LOCKED */",
        now=now,
        busy=busy,
        crowded=crowded,
    )
    if row is None:
        return None
    return _due(row, now, await DUE.claim(tx, row["id"]))


def _due(row: Row, now: int, lease_until: int) -> DueSync:
    return DueSync(
        repo=PlatformRepo(**{name: row[name] for name in PlatformRepo.__struct_fields__}),
        claimed_at=now,
        lease_until=lease_until,
        failures=row["sync_failures"],
        error=row["sync_error"],
        connection_error=row["connection_error"],
        hook_seen_at=row["hook_seen_at"],
        whole_due_at=row["whole_due_at"],
        is_told=row["told_at"] is not None,
        has_told_pulls=bool(row["has_told_pulls"]),
    )


async def _finish(
    tx: Transaction, due: DueSync, held: int, whole_due_at: int, due_at: int, note: str | None
) -> None:
    await tx.execute(
        "UPDATE repos SET sync_failures = 0, sync_error = :note, synced_at = :claimed_at,"
        " whole_due_at = :whole_due_at,"
        # What happened after the claim may not have been seen.
        " told_at = CASE WHEN told_at > :claimed_at THEN told_at END,"
        " sync_due_at = CASE WHEN sync_due_at = :held THEN :due_at ELSE sync_due_at END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=due.repo.id,
        held=held,
        whole_due_at=whole_due_at,
        due_at=due_at,
        claimed_at=due.claimed_at,
        note=note and note[:_MOST_ERROR_LENGTH],
    )
    await _clear_connection(tx, due)


async def _clear_connection(tx: Transaction, due: DueSync) -> None:
    """It answered, so nothing need wait for it."""
    await tx.execute(
        "UPDATE forge_connections SET away_failures = 0, resting_until = NULL"
        " WHERE id = :id AND away_failures > 0",
        id=due.repo.connection_id,
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


async def _fail(tx: Transaction, due: DueSync, held: int, reason: str) -> None:
    cut = reason[:_MOST_ERROR_LENGTH]
    await tx.execute(
        "UPDATE repos SET sync_failures = sync_failures + 1, sync_error = :reason,"
        " sync_due_at = CASE WHEN sync_due_at = :held THEN :due_at ELSE sync_due_at END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=due.repo.id,
        held=held,
        due_at=now_ms() + sync_backoff_ms(due.failures),
        reason=cut,
    )
    # One that was never indexed waits for a first look that goes well.
    await tx.execute(
        "UPDATE repos SET index_error = :reason WHERE id = :id AND index_status = 'indexing'"
        " AND index_due_at IS NULL",
        id=due.repo.id,
        reason=cut,
    )
