"""Sessions that end before their time: one's own, by oneself; a member's, by an administrator.

Tells the audit log. Knows neither cookies nor pages.
"""

from agentjobs.organizations import audit
from agentjobs.organizations.session_changes import TOPIC, end_all, session_id
from agentjobs.organizations.tokens import token_hash
from agentjobs.organizations.user_audit import write_for_user
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction


async def end_session(db: Database, token: str) -> None:
    """Signing out of one browser."""
    await db.transact(_sign_out, token_hash(token), audit.current_actor())


async def end_session_by_id(db: Database, user_id: str, id: str) -> bytes:
    """One of the user's own, by what `list_sessions` calls it. Its hash."""
    return await db.transact(_end_by_id, user_id, id, audit.current_actor())


async def end_sessions(db: Database, user_id: str, *, but: bytes | None = None) -> int:
    """All of a user's, but the one with this hash. How many those were."""
    return await db.transact(_end_and_tell, user_id, but, audit.current_actor())


async def sign_member_out(db: Database, organization_id: str, user_id: str) -> int:
    """Their sessions that stand in the organization end; those elsewhere are not its admins' to
    end. How many those were."""
    return await db.transact(_sign_member_out, organization_id, user_id, audit.current_actor())


async def _sign_out(tx: Transaction, hashed: bytes, actor: audit.Actor) -> None:
    session = await tx.fetch_one(
        "DELETE FROM sessions WHERE hash = :hash RETURNING user_id, organization_id", hash=hashed
    )
    if session is None:
        return
    email = await _email(tx, session["user_id"])
    entry = audit.Entry(actor, "user.signed_out", email, {})
    await audit.write(tx, session["organization_id"], entry)
    await tx.invalidate(TOPIC)


async def _end_by_id(tx: Transaction, user_id: str, id: str, actor: audit.Actor) -> bytes:
    rows = await tx.fetch_all("SELECT hash FROM sessions WHERE user_id = :id", id=user_id)
    hashed = next((bytes(row["hash"]) for row in rows if session_id(row["hash"]) == id), None)
    if hashed is None:
        raise Problem(
            "not_found", "You have no such session; it is over, or was ended a moment ago."
        )
    await tx.execute("DELETE FROM sessions WHERE hash = :hash", hash=hashed)
    await _tell(tx, user_id, 1, actor)
    await tx.invalidate(TOPIC)
    return hashed


async def _end_and_tell(
    tx: Transaction, user_id: str, but: bytes | None, actor: audit.Actor
) -> int:
    ended = await end_all(tx, user_id, but=but)
    if ended:
        await _tell(tx, user_id, ended, actor)
    return ended


async def _sign_member_out(
    tx: Transaction, organization_id: str, user_id: str, actor: audit.Actor
) -> int:
    here = {"organization_id": organization_id, "user_id": user_id}
    member = await tx.fetch_one(
        "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :organization_id AND m.user_id = :user_id",
        **here,
    )
    if member is None:
        raise Problem(
            "member_not_found", "The organization has no such member; its list shows who is in it."
        )
    ended = await tx.execute(
        "DELETE FROM sessions WHERE organization_id = :organization_id AND user_id = :user_id",
        **here,
    )
    if ended:
        entry = audit.Entry(actor, "member.signed_out", member["email"], {"sessions": ended})
        await audit.write(tx, organization_id, entry)
        await tx.invalidate(TOPIC)
    return ended


async def _tell(tx: Transaction, user_id: str, ended: int, actor: audit.Actor) -> None:
    email = await _email(tx, user_id)
    entry = audit.Entry(actor, "sessions.ended", email, {"sessions": ended})
    await write_for_user(tx, user_id, entry)


async def _email(tx: Transaction, user_id: str) -> str:
    user = await tx.fetch_one("SELECT email FROM users WHERE id = :id", id=user_id)
    return "" if user is None else str(user["email"])
