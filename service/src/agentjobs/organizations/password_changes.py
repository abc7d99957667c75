"""Changes of a password, by the user or by the operator. Both end the user's sessions."""

from agentjobs.organizations import audit
from agentjobs.organizations.passwords import check_password, hash_password, verify_password
from agentjobs.organizations.sessions import delete_sessions
from agentjobs.organizations.throttle import Attempt, count_attempt, forget_failures
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.problems import Problem


async def change_password(db: Database, user_id: str, current: str | None, new: str) -> None:
    """`current` is required if the user has a password. Ends all sessions; the page starts one.

    Users who sign in only with the provider cannot set a password: it would still work after the
    provider removes their account.
    """
    user = await _user(db, user_id)
    if user["password_hash"] is None and user["oidc_subject"] is not None:
        raise _managed_by_provider()
    check_password(new, user["email"])
    if user["password_hash"] is not None:
        await count_attempt(db, Attempt(user["email"], None))
        if not await verify_password(user["password_hash"], current or ""):
            raise _wrong_password()
    if not await _replace(db, user, await hash_password(new), is_by_operator=False):
        # The password was changed concurrently.
        raise _wrong_password()


async def set_password(db: Database, user_id: str, new: str) -> None:
    """Sets a password for the operator, without the current one. Ends all sessions."""
    user = await _user(db, user_id)
    check_password(new, user["email"])
    if not await _replace(db, user, await hash_password(new), is_by_operator=True):
        raise Problem(
            "password_changed", "The password was changed at the same moment; set it again."
        )


async def _user(db: Database, user_id: str) -> Row:
    row = await db.fetch_one(
        "SELECT id, email, password_hash, oidc_subject FROM users WHERE id = :id", id=user_id
    )
    if row is None:
        raise Problem("user_not_found", "This user does not exist.")
    return row


@audit.in_transaction
async def _replace(tx: Transaction, user: Row, after: str, *, is_by_operator: bool) -> bool:
    """False if the stored password is no longer the one that was verified."""
    changed = await tx.execute(
        "UPDATE users SET password_hash = :after"
        " WHERE id = :id AND COALESCE(password_hash, '') = :before"
        " AND (password_hash IS NOT NULL OR oidc_subject IS NULL OR CAST(:forced AS INTEGER) = 1)",
        id=user["id"],
        before=user["password_hash"] or "",
        after=after,
        forced=int(is_by_operator),
    )
    if not changed:
        return False
    await delete_sessions(tx, user["id"])
    await forget_failures(tx, user["email"])
    await audit.write_for_user(tx, user["id"], audit.entry("password.changed", user["email"]))
    return True


def _wrong_password() -> Problem:
    return Problem("wrong_password", "The current password is incorrect.")


def _managed_by_provider() -> Problem:
    return Problem(
        "managed_by_provider",
        "You sign in with your organization's identity provider, so you cannot set a password "
        "here. The operator can set one with `agentjobs users set-password`.",
    )
