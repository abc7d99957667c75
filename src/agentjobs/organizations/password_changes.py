"""A user's password: changed by themselves, or set by the operator. Ends their sessions."""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.passwords import check_password, hash_password, verify_password
from agentjobs.organizations.session_changes import end_all
from agentjobs.organizations.throttle import Attempt, count_attempt, forget_failures
from agentjobs.organizations.user_audit import write_for_user
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    email: str
    before: str | None
    after: str
    is_by_operator: bool
    entry: audit.Entry


async def change_password(db: Database, user_id: str, current: str | None, new: str) -> None:
    """`current` is needed when there is one. Ends all sessions: the page starts another.

    Who signs in with the provider alone gets none here: it would outlive their leaving it.
    """
    user = await _user(db, user_id)
    if user["password_hash"] is None and user["oidc_subject"] is not None:
        raise _managed_by_provider()
    check_password(new, user["email"])
    if user["password_hash"] is not None:
        await count_attempt(db, Attempt(user["email"], None))
        if not await verify_password(user["password_hash"], current or ""):
            raise _wrong_password()
    if not await db.transact(_replace, await _change(user, new, is_by_operator=False)):
        # Somebody else changed it while this one was looked at.
        raise _wrong_password()


async def set_password(db: Database, user_id: str, new: str) -> None:
    """For the operator, who need not know the one before. Ends all sessions."""
    user = await _user(db, user_id)
    check_password(new, user["email"])
    if not await db.transact(_replace, await _change(user, new, is_by_operator=True)):
        raise Problem("password_changed", "The password was changed just now; set it once more.")


async def _user(db: Database, user_id: str) -> Row:
    row = await db.fetch_one(
        "SELECT id, email, password_hash, oidc_subject FROM users WHERE id = :id", id=user_id
    )
    if row is None:
        raise Problem("user_not_found", "There is no such user; look for them among the members.")
    return row


async def _change(user: Row, new: str, *, is_by_operator: bool) -> _Change:
    return _Change(
        user_id=user["id"],
        email=user["email"],
        before=user["password_hash"],
        after=await hash_password(new),
        is_by_operator=is_by_operator,
        entry=audit.entry("password.changed", user["email"]),
    )


async def _replace(tx: Transaction, change: _Change) -> bool:
    """False: it is not the one any more that was looked at."""
    changed = await tx.execute(
        "UPDATE users SET password_hash = :after"
        " WHERE id = :id AND COALESCE(password_hash, '') = :before"
        " AND (password_hash IS NOT NULL OR oidc_subject IS NULL OR CAST(:forced AS INTEGER) = 1)",
        id=change.user_id,
        before=change.before or "",
        after=change.after,
        forced=int(change.is_by_operator),
    )
    if not changed:
        return False
    await end_all(tx, change.user_id)
    await forget_failures(tx, change.email)
    await write_for_user(tx, change.user_id, change.entry)
    return True


def _wrong_password() -> Problem:
    return Problem("wrong_password", "This is not your password of now; type it again.")


def _managed_by_provider() -> Problem:
    return Problem(
        "managed_by_provider",
        "You sign in with your organization's provider, so there is no password to choose here. "
        "If you need one, the operator of the service can set it with "
        "`agentjobs users set-password`.",
    )
