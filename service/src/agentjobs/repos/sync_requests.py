"""Makes repositories due for synchronization with their platform; `platform_sync` performs it."""

from agentjobs.store.database import Transaction

TOPIC = "platforms"


async def request_sync(tx: Transaction, *repo_ids: str) -> None:
    """Make the repositories due now, so that an error a job ran into appears on their pages.

    A repository whose last syncs failed keeps its backoff.
    """
    changed = await tx.execute(
        "UPDATE repos SET sync_due_at = :now, told_at = :now"
        " WHERE id IN (SELECT value FROM each(:ids)) AND connection_id IS NOT NULL"
        " AND disconnected_at IS NULL AND sync_failures = 0 AND sync_due_at > :now",
        ids=list(repo_ids),
        now=await tx.clock_ms(),
    )
    if changed:
        tx.announce(TOPIC)


async def retry_failed_syncs(tx: Transaction, connection_id: str) -> None:
    """Make repositories of a connection due whose last sync failed."""
    await tx.execute(
        "UPDATE repos SET sync_due_at = :now, sync_failures = 0 WHERE connection_id = :id"
        " AND disconnected_at IS NULL AND sync_error IS NOT NULL",
        id=connection_id,
        now=await tx.clock_ms(),
    )
    tx.announce(TOPIC)
