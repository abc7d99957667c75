"""Closes an organization before its data is deleted: its people and keys lose access at once.

Users without another organization are deleted with it.
"""

from agentjobs.store.database import Transaction
from agentjobs.store.in_transaction import in_transaction


@in_transaction
async def close_organization(tx: Transaction, organization_id: str) -> None:
    rows = await tx.fetch_all(
        "SELECT user_id FROM memberships m WHERE m.organization_id = :id AND NOT EXISTS"
        " (SELECT 1 FROM memberships o WHERE o.user_id = m.user_id AND o.organization_id <> :id)",
        id=organization_id,
    )
    users = [row["user_id"] for row in rows]
    for table in ("api_keys", "invitations", "memberships", "sessions"):
        await tx.execute(f"DELETE FROM {table} WHERE organization_id = :id", id=organization_id)
    for table, column in (("sessions", "user_id"), ("sign_in_links", "user_id"), ("users", "id")):
        await tx.execute(
            f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM each(:users))", users=users
        )
    await tx.invalidate("keys", "organizations", "sessions")
