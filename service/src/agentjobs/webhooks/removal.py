"""Stops the deliveries of an organization before its data is deleted."""

from agentjobs.store.database import Transaction


async def close_endpoints(tx: Transaction, organization_id: str) -> None:
    """No sender claims their deliveries any more; attempts in progress continue."""
    await tx.execute(
        "UPDATE webhook_endpoints SET removed_at = :now"
        " WHERE organization_id = :organization_id AND removed_at IS NULL",
        organization_id=organization_id,
        now=await tx.clock_ms(),
    )


async def has_active_deliveries(tx: Transaction, organization_id: str) -> bool:
    """Whether a sender would still record an attempt."""
    row = await tx.fetch_one(
        "SELECT id FROM deliveries WHERE organization_id = :organization_id"
        " AND lease_owner IS NOT NULL AND lease_expires_at > :now LIMIT 1",
        organization_id=organization_id,
        now=await tx.clock_ms(),
    )
    return row is not None
