"""When a repository is synced with its platform: claims of `sync_queue`, and `repo_sync`.

`sync` performs the sync.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from agentjobs.connections import health
from agentjobs.connections.health import sync_backoff_ms
from agentjobs.platforms.connection import ConnectionKind
from agentjobs.platforms.protocol import RepoAddress
from agentjobs.repos.queues import SYNC, postpone_syncs, release_sync
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.in_transaction import in_transaction
from agentjobs.store.leases import Lease
from agentjobs_runtime.clock import DAY_MS, SECOND_MS

# A repository whose hooks arrive is polled less often by this factor.
_HOOK_FACTOR = 12
_MAX_ERROR_LENGTH = 1_000


class PlatformRepo(msgspec.Struct, frozen=True, kw_only=True):
    """A connected repository that a platform hosts; `account` is the login of its connection."""

    id: str
    organization_id: str
    organization: str
    plan: str
    platform: str
    connection_id: str
    connection_kind: ConnectionKind
    account: str | None
    external_id: str
    full_name: str
    default_branch: str
    head_commit: str

    @property
    def address(self) -> RepoAddress:
        return RepoAddress(self.organization, self.full_name, self.id, self.external_id)


class DueSync(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed sync; `error` and `connection_error` are those of the last sync.

    A full sync reads everything; any other reads what hook events named: the repository itself
    (`has_repo_event`), some of its pull requests (`has_pull_events`), or both.
    """

    repo: PlatformRepo
    claimed_at: int
    lease_until: int
    failures: int
    error: str | None
    connection_error: str | None
    # The last hook about this repository that was signed with the current secret.
    hook_seen_at: int | None
    full_due_at: int | None
    has_repo_event: bool
    has_pull_events: bool

    @property
    def is_full(self) -> bool:
        return self.full_due_at is None or self.full_due_at <= self.claimed_at

    @property
    def is_poll(self) -> bool:
        """Nothing happened that is known of, so that the sync can wait."""
        is_new = not self.repo.head_commit
        return not (is_new or self.has_repo_event or self.has_pull_events or self.error)

    @property
    def reads_repository(self) -> bool:
        """A repository that shows an error is always read, to see whether the error is over."""
        is_named = self.has_repo_event or not self.has_pull_events
        return self.is_full or is_named or self.error is not None


@in_transaction
async def claim_due_sync(
    tx: Transaction, busy: Collection[str] = (), crowded: Collection[str] = ()
) -> DueSync | None:
    """Claim the repository that has been due longest; the lease is short and renewed.

    Repositories in `busy`, and connections and organizations in `crowded`, are left out.
    """
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT r.id, r.organization_id, o.name AS organization, o.plan, r.platform,"
        " r.connection_id, c.kind AS connection_kind, c.account, r.external_id,"
        " r.full_name, r.default_branch, r.head_commit, q.failures, s.error, s.full_due_at,"
        " q.requested_at, c.error AS connection_error,"
        " CASE WHEN c.hook_seen_at IS NOT NULL THEN s.hook_seen_at END AS hook_seen_at,"
        " EXISTS (SELECT 1 FROM pulls p WHERE p.repo_id = r.id AND p.change_reported_at IS NOT NULL"
        "  AND p.state <> 'merged') AS has_pull_events"
        " FROM sync_queue q JOIN repos r ON r.id = q.repo_id"
        " JOIN organizations o ON o.id = r.organization_id"
        " JOIN platform_connections c ON c.id = r.connection_id"
        " LEFT JOIN repo_sync s ON s.repo_id = q.repo_id"
        " WHERE q.due_at IS NOT NULL AND q.due_at <= :now AND r.disconnected_at IS NULL"
        " AND (q.lease_until IS NULL OR q.lease_until <= :now)"
        " AND (c.resting_until IS NULL OR c.resting_until <= :now)"
        " AND r.id NOT IN (SELECT value FROM each(:busy))"
        " AND r.connection_id NOT IN (SELECT value FROM each(:crowded))"
        " AND r.organization_id NOT IN (SELECT value FROM each(:crowded))"
        " ORDER BY q.due_at LIMIT 1 /*postgresql FOR UPDATE OF q SKIP LOCKED */",
        now=now,
        busy=list(busy),
        crowded=list(crowded),
    )
    if row is None:
        return None
    return _due(row, now, await SYNC.claim(tx, row["id"]))


class SyncClaim:
    """What the holder of a claim may write, each in a transaction. A repository made due meanwhile
    stays due."""

    def __init__(self, db: Database, due: DueSync) -> None:
        self.due = due
        self._lease = Lease(db, SYNC, due.repo.id, due.lease_until)

    async def renew(self) -> bool:
        """True even if the repository was made due meanwhile: the sync continues."""
        return await self._lease.renew()

    async def finish(
        self, tx: Transaction, full_due_at: int, note: str | None, *, due_at: int | None = None
    ) -> None:
        """`note` is a problem despite success; `due_at` asks for a sync before the full one."""
        due, due_at = self.due, full_due_at if due_at is None else min(due_at, full_due_at)
        await tx.execute(
            "INSERT INTO repo_sync (repo_id, error, synced_at, full_due_at)"
            " VALUES (:id, :note, :claimed_at, :full_due_at) ON CONFLICT (repo_id) DO UPDATE SET"
            " error = excluded.error, synced_at = excluded.synced_at,"
            " full_due_at = excluded.full_due_at",
            id=due.repo.id,
            full_due_at=full_due_at,
            claimed_at=due.claimed_at,
            note=note and note[:_MAX_ERROR_LENGTH],
        )
        # Events after the claim may not have been seen.
        await self._release(tx, due_at, has_failed=False, claimed_at=due.claimed_at)
        connection_id = due.repo.connection_id
        await health.record_reachable(tx, connection_id)
        # The sync that stored this error stored it on the connection too.
        if due.connection_error is not None and due.connection_error == due.error:
            await health.clear_error(tx, connection_id, due.error)

    async def postpone(self, tx: Transaction, wait_seconds: float) -> None:
        """Leave everything as it is until then."""
        due_at = await tx.clock_ms() + int(wait_seconds * SECOND_MS)
        await self._release(tx, due_at, has_failed=None)

    async def fail(
        self,
        tx: Transaction,
        reason: str,
        *,
        is_unreachable: bool = False,
        wait_seconds: float = 0.0,
    ) -> None:
        """`is_unreachable`: the platform did not answer, so other syncs of the connection wait;
        for at least `wait_seconds`, which it may have asked for."""
        due = self.due
        await _store_error(tx, "r.id = :id", reason, id=due.repo.id)
        due_at = await tx.clock_ms() + sync_backoff_ms(due.failures)
        await self._release(tx, due_at, has_failed=True)
        if is_unreachable or wait_seconds > 0:
            connection_id = due.repo.connection_id
            await health.record_unreachable(tx, connection_id, due.claimed_at, wait_seconds)

    async def fail_connection(self, tx: Transaction, reason: str) -> None:
        """The platform refuses the credential, which fails all repositories of the connection."""
        reason = reason[:_MAX_ERROR_LENGTH]
        due, connection_id = self.due, self.due.repo.connection_id
        await _store_error(tx, "r.connection_id = :id", reason, id=connection_id)
        due_at = await tx.clock_ms() + sync_backoff_ms(due.failures)
        await postpone_syncs(tx, connection_id, due.repo.id, due.failures + 1, due_at)
        await health.record_check(tx, connection_id, error=reason)

    async def _release(self, tx: Transaction, due_at: int, **outcome: Any) -> None:
        await release_sync(tx, self.due.repo.id, self._lease.until, due_at, **outcome)


def next_due_at(due: DueSync, poll_seconds: float, now: int) -> int:
    has_hooks = due.hook_seen_at is not None and due.hook_seen_at > now - DAY_MS
    return now + int(poll_seconds * SECOND_MS) * (_HOOK_FACTOR if has_hooks else 1)


def _due(row: Row, now: int, lease_until: int) -> DueSync:
    return to_struct(
        row,
        DueSync,
        repo=to_struct(row, PlatformRepo),
        claimed_at=now,
        lease_until=lease_until,
        has_repo_event=row["requested_at"] is not None,
        has_pull_events=bool(row["has_pull_events"]),
    )


async def _store_error(tx: Transaction, condition: str, reason: str, **parameters: str) -> None:
    await tx.execute(
        "INSERT INTO repo_sync (repo_id, error) SELECT r.id, CAST(:reason AS TEXT) FROM repos r"
        f" WHERE {condition} AND r.disconnected_at IS NULL"
        " ON CONFLICT (repo_id) DO UPDATE SET error = excluded.error",
        reason=reason[:_MAX_ERROR_LENGTH],
        **parameters,
    )
