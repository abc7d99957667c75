"""Audit entries about a person rather than an organization: each of theirs gets to know."""

from agentjobs.organizations.audit import Actor, Entry, write
from agentjobs.store.database import Transaction


def acting_user(user_id: str, called: str, address: str) -> Actor:
    """Somebody who acts before they are signed in, such as by signing in."""
    return Actor("user", called, user_id, address)


async def write_for_user(tx: Transaction, user_id: str, entry: Entry) -> None:
    rows = await tx.fetch_all(
        "SELECT organization_id FROM memberships WHERE user_id = :user_id ORDER BY organization_id",
        user_id=user_id,
    )
    for row in rows:
        await write(tx, row["organization_id"], entry)
