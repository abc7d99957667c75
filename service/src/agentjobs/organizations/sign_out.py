"""Ends sessions before they expire, by their user or by an admin, with entries in the audit log.

Knows neither cookies nor pages.
"""

from agentjobs.organizations import audit
from agentjobs.organizations.sessions import (
    TOPIC,
    delete_links_created_by,
    delete_sessions,
    session_id,
)
from agentjobs.organizations.tokens import token_hash
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem


@audit.in_transaction
async def end_session(tx: Transaction, token: str) -> None:
    """Sign out of one browser."""
    session = await tx.fetch_one(
        "DELETE FROM sessions WHERE hash = :hash RETURNING user_id, organization_id",
        hash=token_hash(token),
    )
    if session is None:
        return
    email = await _email(tx, session["user_id"])
    await audit.record(tx, session["organization_id"], "user.signed_out", email)
    await tx.invalidate(TOPIC)


@audit.in_transaction
async def end_session_by_id(tx: Transaction, user_id: str, id: str) -> bytes:
    """End one of the user's sessions by its `SessionView.id`; returns its hash."""
    rows = await tx.fetch_all("SELECT hash FROM sessions WHERE user_id = :id", id=user_id)
    hashed = next((bytes(row["hash"]) for row in rows if session_id(row["hash"]) == id), None)
    if hashed is None:
        raise Problem("not_found", "This session has already ended.")
    await tx.execute("DELETE FROM sessions WHERE hash = :hash", hash=hashed)
    await delete_links_created_by(tx, user_id)
    await _record_ended(tx, user_id, 1)
    await tx.invalidate(TOPIC)
    return hashed


@audit.in_transaction
async def end_sessions(tx: Transaction, user_id: str, *, keep: bytes | None = None) -> int:
    """End all of a user's sessions except the one with the hash `keep`; returns their number."""
    ended = await delete_sessions(tx, user_id, keep=keep)
    if ended:
        await _record_ended(tx, user_id, ended)
    return ended


@audit.in_transaction
async def sign_member_out(tx: Transaction, organization_id: str, user_id: str) -> int:
    """End the member's sessions in this organization only; returns their number."""
    membership = {"organization_id": organization_id, "user_id": user_id}
    member = await tx.fetch_one(
        "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :organization_id AND m.user_id = :user_id",
        **membership,
    )
    if member is None:
        raise Problem("member_not_found", "This user is not a member of the organization.")
    ended = await tx.execute(
        "DELETE FROM sessions WHERE organization_id = :organization_id AND user_id = :user_id",
        **membership,
    )
    await delete_links_created_by(tx, user_id, organization_id)
    if ended:
        email = member["email"]
        await audit.record(tx, organization_id, "member.signed_out", email, sessions=ended)
        await tx.invalidate(TOPIC)
    return ended


async def _record_ended(tx: Transaction, user_id: str, ended: int) -> None:
    entry = audit.entry("sessions.ended", await _email(tx, user_id), sessions=ended)
    await audit.write_for_user(tx, user_id, entry)


async def _email(tx: Transaction, user_id: str) -> str:
    user = await tx.fetch_one("SELECT email FROM users WHERE id = :id", id=user_id)
    return "" if user is None else str(user["email"])
