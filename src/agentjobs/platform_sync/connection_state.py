"""What goes for all repositories of a connection: its platform is away, or does not know us."""

from agentjobs.clock import now_ms
from agentjobs.platform_sync.claims import DueSync, sync_backoff_ms
from agentjobs.store.database import Database, Transaction

_MOST_ERROR_LENGTH = 1_000


async def rest_connection(db: Database, due: DueSync) -> None:
    """Its platform does not answer: the others need not find that out one by one.

    How long grows as long as none of them is answered.
    """
    await db.transact(_rest, due)


async def fail_connection(db: Database, due: DueSync, reason: str) -> None:
    """Its credential is not accepted: that goes for all its repositories."""
    await db.transact(_fail_together, due, reason[:_MOST_ERROR_LENGTH])


async def _rest(tx: Transaction, due: DueSync) -> None:
    row = await tx.fetch_one(
        "SELECT away_failures, resting_until FROM forge_connections WHERE id = :id"
        " /*postgresql FOR UPDATE */",
        id=due.repo.connection_id,
    )
    # Those that were under way together failed once, not once each.
    if row is None or (row["resting_until"] or 0) > due.claimed_at:
        return
    await tx.execute(
        "UPDATE forge_connections SET away_failures = away_failures + 1, resting_until = :until"
        " WHERE id = :id",
        id=due.repo.connection_id,
        until=now_ms() + sync_backoff_ms(row["away_failures"]),
    )


async def _fail_together(tx: Transaction, due: DueSync, reason: str) -> None:
    now = now_ms()
    await tx.execute(
        "UPDATE repos SET sync_failures = :failures, sync_error = :reason, sync_due_at = :due_at"
        " WHERE connection_id = :connection_id AND disconnected_at IS NULL",
        connection_id=due.repo.connection_id,
        failures=due.failures + 1,
        reason=reason,
        due_at=now + sync_backoff_ms(due.failures),
    )
    await tx.execute(
        "UPDATE forge_connections SET error = :reason, checked_at = :now"
        " WHERE id = :id AND removed_at IS NULL",
        id=due.repo.connection_id,
        reason=reason,
        now=now,
    )
