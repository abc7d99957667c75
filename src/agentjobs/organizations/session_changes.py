"""Sessions inside a caller's transaction: opened, and ended. Only the hash of a token is stored."""

from typing import NamedTuple

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.organizations import audit
from agentjobs.organizations.tokens import new_token, token_hash
from agentjobs.organizations.user_audit import acting_user
from agentjobs.problems import Problem
from agentjobs.safe_text import replace_unstorable
from agentjobs.settings import Settings
from agentjobs.store.database import Row, Transaction

SESSION_PREFIX = "ajs_"
TOPIC = "sessions"

_MOST_ADDRESS_LENGTH = 100
_MOST_USER_AGENT_LENGTH = 300
_ID_DIGITS = 16


class Origin(NamedTuple):
    """Where a request comes from; `user_agent` is kept up to 300 characters."""

    address: str
    user_agent: str


def session_id(hashed: bytes) -> str:
    """What its own user may call it: the beginning of the hash, which opens nothing."""
    return bytes(hashed).hex()[:_ID_DIGITS]


async def open_session(
    tx: Transaction,
    settings: Settings,
    user_id: str,
    origin: Origin,
    *,
    organization_id: str | None = None,
    replacing: str | None = None,
    how: str | None = None,
) -> str:
    """The token. `how` they signed in goes to the audit log; None: they had been before."""
    user = await _where_to_stand(tx, user_id, organization_id)
    if replacing is not None:
        await end_one(tx, replacing)
    token = new_token(SESSION_PREFIX)
    now = now_ms()
    await tx.execute(
        "INSERT INTO sessions (hash, user_id, organization_id, created_at, seen_at, expires_at,"
        " address, user_agent) VALUES (:hash, :user_id, :organization_id, :now, :now, :expires_at,"
        " :address, :user_agent)",
        hash=token_hash(token),
        user_id=user_id,
        organization_id=user["organization_id"],
        now=now,
        expires_at=now + int(settings.session_days * DAY_MS),
        address=_kept(origin.address, _MOST_ADDRESS_LENGTH),
        user_agent=_kept(origin.user_agent, _MOST_USER_AGENT_LENGTH),
    )
    await tx.execute("UPDATE users SET last_sign_in_at = :now WHERE id = :id", id=user_id, now=now)
    if how is not None:
        actor = acting_user(user_id, user["name"] or user["email"], origin.address)
        entry = audit.Entry(actor, "user.signed_in", user["email"], {"how": how})
        await audit.write(tx, user["organization_id"], entry)
    return token


async def end_one(tx: Transaction, token: str) -> None:
    await tx.execute("DELETE FROM sessions WHERE hash = :hash", hash=token_hash(token))
    await tx.invalidate(TOPIC)


async def end_all(tx: Transaction, user_id: str, *, but: bytes | None = None) -> int:
    """Links that would open another one end with them."""
    await tx.execute("DELETE FROM sign_in_links WHERE user_id = :user_id", user_id=user_id)
    # No hash of a token is empty.
    ended = await tx.execute(
        "DELETE FROM sessions WHERE user_id = :user_id AND hash <> :but",
        user_id=user_id,
        but=but or b"",
    )
    await tx.invalidate(TOPIC)
    return ended


async def _where_to_stand(tx: Transaction, user_id: str, organization_id: str | None) -> Row:
    """The organization that was asked for, or used last, or is the first by name."""
    row = await tx.fetch_one(
        "SELECT u.email, u.name, o.id AS organization_id FROM memberships m"
        " JOIN users u ON u.id = m.user_id JOIN organizations o ON o.id = m.organization_id"
        " WHERE m.user_id = :user_id"
        " AND (CAST(:organization_id AS TEXT) IS NULL OR m.organization_id = :organization_id)"
        " ORDER BY COALESCE((SELECT MAX(s.seen_at) FROM sessions s"
        "  WHERE s.user_id = m.user_id AND s.organization_id = m.organization_id), 0) DESC, o.name"
        " LIMIT 1",
        user_id=user_id,
        organization_id=organization_id,
    )
    if row is None:
        raise Problem(
            "no_membership",
            "You are in no organization any more; ask an administrator for an invitation.",
        )
    return row


def _kept(text: str, most: int) -> str:
    """No store takes a zero byte or half of a character."""
    return replace_unstorable(text)[:most]
