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
    return await _set(db, user, is_operator=True)


async def remove_operator(db: Database, user: User) -> bool:
    """False if the account was no operator. The account and its memberships remain."""
    return await _set(db, user, is_operator=False)


@audit.in_transaction
async def _set(tx: Transaction, user: User, *, is_operator: bool) -> bool:
    changed = await tx.execute(
        "UPDATE users SET is_operator = :is_operator"
        " WHERE id = :id AND is_operator <> :is_operator",
        id=user.id,
        is_operator=is_operator,
    )
    if not changed:
        return False
    # An admin may have made one for the account as it was before.
    await delete_reset_links(tx, user.id)
    action = "operator.added" if is_operator else "operator.removed"
    await write_service_entry(tx, audit.entry(action, user.email))
    await tx.invalidate(TOPIC)
    return True
