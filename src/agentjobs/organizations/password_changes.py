"""A user's password: changed by themselves, or set by the operator. Ends their sessions."""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.passwords import check_password, hash_password, verify_password
from agentjobs.organizations.session_changes import end_all
from agentjobs.organizations.throttle import Attempt, count_attempt, forgive
from agentjobs.organizations.user_audit import write_for_user
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    email: str
    before: str | None
    after: str
    entry: audit.Entry


async def change_password(db: Database, user_id: str, current: str | None, new: str) -> None:
    """`current` is needed when there is one. Ends all sessions: the page starts another."""
    user = await _user(db, user_id)
    check_password(new, user["email"])
    if user["password_hash"] is not None:
        await count_attempt(db, Attempt(user["email"], None))
        if not await verify_password(user["password_hash"], current or ""):
            raise _wrong_password()
    if not await db.transact(_replace, await _change(user, new)):
        # Somebody else changed it while this one was looked at.
        raise _wrong_password()


async def set_password(db: Database, user_id: str, new: str) -> None:
    """For the operator, who need not know the one before. Ends all sessions."""
    user = await _user(db, user_id)
    check_password(new, user["email"])
    if not await db.transact(_replace, await _change(user, new)):
        raise Problem("password_changed", "The password was changed just now; set it once more.")


async def _user(db: Database, user_id: str) -> Row:
    row = await db.fetch_one(
        "SELECT id, email, password_hash FROM users WHERE id = :id", id=user_id
    )
    if row is None:
        raise Problem("user_not_found", "There is no such user; look for them among the members.")
    return row


async def _change(user: Row, new: str) -> _Change:
    return _Change(
        user_id=user["id"],
        email=user["email"],
        before=user["password_hash"],
        after=await hash_password(new),
        entry=audit.entry("password.changed", user["email"]),
    )


async def _replace(tx: Transaction, change: _Change) -> bool:
    """False: it is not the one any more that was looked at."""
    changed = await tx.execute(
        "UPDATE users SET password_hash = :after"
        " WHERE id = :id AND COALESCE(password_hash, '') = :before",
        id=change.user_id,
        before=change.before or "",
        after=change.after,
    )
    if not changed:
        return False
    await end_all(tx, change.user_id)
    await forgive(tx, Attempt(change.email, None))
    await write_for_user(tx, change.user_id, change.entry)
    return True


def _wrong_password() -> Problem:
    return Problem("wrong_password", "This is not your password of now; type it again.")
