"""Operators: accounts that see and manage the whole service. Only the command line makes them."""

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import write_service_entry
from agentjobs.organizations.password_resets import delete_reset_links
from agentjobs.organizations.sessions import TOPIC
from agentjobs.organizations.users import COLUMNS, User, user_from_row
from agentjobs.store.database import Database, Transaction


async def list_operators(db: Database) -> list[User]:
    """Sorted by e-mail address."""
    rows = await db.fetch_all(f"SELECT {COLUMNS} FROM users WHERE is_operator ORDER BY email")
    return [user_from_row(row) for row in rows]


async def add_operator(db: Database, user: User) -> bool:
    """False if the account was an operator already."""
    entry = audit.entry("operator.added", user.email)
    return await db.transact(_set, user.id, entry, is_operator=True)


async def remove_operator(db: Database, user: User) -> bool:
    """False if the account was no operator. The account and its memberships remain."""
    entry = audit.entry("operator.removed", user.email)
    return await db.transact(_set, user.id, entry, is_operator=False)


async def _set(tx: Transaction, user_id: str, entry: audit.Entry, *, is_operator: bool) -> bool:
    changed = await tx.execute(
        "UPDATE users SET is_operator = :is_operator"
        " WHERE id = :id AND is_operator <> :is_operator",
        id=user_id,
        is_operator=is_operator,
    )
    if not changed:
        return False
    # An admin may have made one for the account as it was before.
    await delete_reset_links(tx, user_id)
    await write_service_entry(tx, entry)
    await tx.invalidate(TOPIC)
    return True
