"""The table `advisory_feeds`: the state, due time and claim of each ecosystem's feed.

While a feed is being synchronized, `checked_at` is NULL and `due_at` is the end of the claim.
"""

from collections.abc import Sequence

import msgspec

from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs.store.leases import DueColumn, Lease, backoff_ms
from agentjobs_dependencies.advisories.sources.source import FeedWarning
from agentjobs_runtime.clock import SECOND_MS

DUE = DueColumn("advisory_feeds", "ecosystem", "due_at", 60 * SECOND_MS)
_FIRST_BACKOFF_MS = 60 * SECOND_MS
_MAX_WARNINGS = 100
_decode_warnings = msgspec.json.Decoder(tuple[FeedWarning, ...]).decode


class SyncState(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a synchronization stores for the next one."""

    source: str
    newest: str | None
    etag: str | None
    records: int
    generation: int
    warnings: tuple[FeedWarning, ...]


class Feed(SyncState, frozen=True, kw_only=True):
    """`newest` is the latest stored change, `etag` the revision of the last full archive."""

    ecosystem: str
    synced_at: int | None
    checked_at: int | None
    due_at: int
    error: str | None
    failures: int


async def list_feeds(db: Database) -> list[Feed]:
    rows = await db.fetch_all("SELECT * FROM advisory_feeds ORDER BY ecosystem")
    return [_feed(row) for row in rows]


@in_transaction
async def ensure_feeds(tx: Transaction, ecosystems: Sequence[str], source: str) -> list[str]:
    """Create missing feeds, make those of another source due, and return other feeds."""
    for ecosystem in ecosystems:
        await tx.execute(
            "INSERT INTO advisory_feeds (ecosystem, source) VALUES (:ecosystem, :source)"
            " ON CONFLICT DO NOTHING",
            ecosystem=ecosystem,
            source=source,
        )
    await tx.execute(
        "UPDATE advisory_feeds SET due_at = 0 WHERE source <> :source AND checked_at IS NOT NULL"
        " AND ecosystem IN (SELECT value FROM each(:ecosystems))",
        source=source,
        ecosystems=ecosystems,
    )
    rows = await tx.fetch_all("SELECT ecosystem FROM advisory_feeds ORDER BY ecosystem")
    return [row["ecosystem"] for row in rows if row["ecosystem"] not in ecosystems]


async def delete_feed(db: Database, ecosystem: str) -> None:
    """The feed's records must already be deleted."""
    delete = "DELETE FROM advisory_feeds WHERE ecosystem = :name"
    await db.transact(execute, delete, name=ecosystem)


@in_transaction
async def claim_feed(
    tx: Transaction, ecosystems: Sequence[str], *, even_if_not_due: bool = False
) -> Feed | None:
    """Claim the feed that has been due longest; None if other processes hold them."""
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT * FROM advisory_feeds WHERE ecosystem IN (SELECT value FROM each(:ecosystems))"
        f" AND (due_at <= :now{' OR checked_at IS NOT NULL' if even_if_not_due else ''})"
        " ORDER BY due_at, ecosystem LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        ecosystems=ecosystems,
        now=now,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE advisory_feeds SET checked_at = NULL WHERE ecosystem = :ecosystem",
        ecosystem=row["ecosystem"],
    )
    until = await DUE.claim(tx, row["ecosystem"])
    return msgspec.structs.replace(_feed(row), due_at=until)


class FeedClaim(Lease):
    """A lease on one feed, and what its holder may write, each in a transaction."""

    def __init__(self, db: Database, feed: Feed) -> None:
        super().__init__(db, DUE, feed.ecosystem, feed.due_at)
        self._feed = feed

    async def succeed(self, tx: Transaction, synced: SyncState, next_in_seconds: float) -> None:
        now = await tx.clock_ms()
        warnings = msgspec.json.encode(_limit(synced.warnings)).decode()
        await tx.execute(
            "UPDATE advisory_feeds SET source = :source, newest = :newest, etag = :etag,"
            " records = :records, generation = :generation, warnings = :warnings, error = NULL,"
            " failures = 0, synced_at = :now, checked_at = :now, due_at = :next"
            " WHERE ecosystem = :ecosystem AND due_at = :due_at",
            ecosystem=self._feed.ecosystem,
            due_at=self.until,
            now=now,
            next=now + int(next_in_seconds * SECOND_MS),
            **msgspec.structs.asdict(synced) | {"warnings": warnings},
        )

    async def fail(self, tx: Transaction, reason: str, max_backoff_seconds: float) -> None:
        now, max_ms = await tx.clock_ms(), int(max_backoff_seconds * SECOND_MS)
        await tx.execute(
            "UPDATE advisory_feeds SET error = :reason, failures = failures + 1, checked_at = :now,"
            " due_at = :next WHERE ecosystem = :ecosystem AND due_at = :due_at",
            ecosystem=self._feed.ecosystem,
            due_at=self.until,
            reason=reason.replace("\0", " ")[:2_000],
            now=now,
            next=now + backoff_ms(self._feed.failures, _FIRST_BACKOFF_MS, max_ms),
        )


def _limit(warnings: Sequence[FeedWarning]) -> list[FeedWarning]:
    limited = [FeedWarning(item.path, item.reason[:500]) for item in warnings[:_MAX_WARNINGS]]
    if len(warnings) > _MAX_WARNINGS:
        limited.append(FeedWarning("", f"and {len(warnings) - _MAX_WARNINGS} more"))
    return limited


def _feed(row: Row) -> Feed:
    return to_struct(row, Feed, warnings=_decode_warnings(row["warnings"]))
