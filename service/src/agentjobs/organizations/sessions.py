"""Sessions of the dashboard: a browser holds the token, the store only its hash.

Knows neither cookies nor how a user signed in. A session belongs to one organization at a time.
"""

import base64
import contextlib
import hmac
from typing import NamedTuple

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.tokens import is_well_formed, new_token, token_hash
from agentjobs.store.database import Database, Row, StoreUnavailable, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs_runtime.clock import DAY_MS, HOUR_MS, SECOND_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.safe_text import replace_unstorable
from agentjobs_runtime.settings import Settings

SESSION_PREFIX = "ajs_"
TOPIC = "sessions"

_SEEN_INTERVAL_MS = 60 * SECOND_MS
_MAX_ADDRESS_LENGTH = 100
_MAX_USER_AGENT_LENGTH = 300
_ID_DIGITS = 16


class Origin(NamedTuple):
    """Where a request comes from."""

    address: str
    user_agent: str


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in user. `session` is the hash of the token; `memberships` is their number."""

    user_id: str
    email: str
    name: str
    role: str
    organization_id: str
    organization: str
    plan: str
    session: bytes
    csrf: str
    created_at: int
    memberships: int
    is_operator: bool = False

    @property
    def display_name(self) -> str:
        return self.name or self.email

    @property
    def caller(self) -> Caller:
        return Caller(
            organization_id=self.organization_id,
            organization=self.organization,
            plan=self.plan,
            key_id=self.user_id,
            scope="jobs" if self.role in {"member", "admin"} else "read",
            git_write=False,
            name=self.display_name,
        )


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its own user sees it. `id` is the beginning of its hash."""

    id: str
    hash: bytes
    created_at: int
    seen_at: int
    address: str
    user_agent: str


def session_id(hashed: bytes) -> str:
    """A name for the session that does not grant access: the beginning of the hash."""
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
    """Returns the token. `how` the user signed in is for the audit log; None writes no entry."""
    user = await _select_organization(tx, user_id, organization_id)
    if replacing is not None:
        await delete_session(tx, replacing)
    token = new_token(SESSION_PREFIX)
    now = await tx.clock_ms()
    await tx.execute(
        "INSERT INTO sessions (hash, user_id, organization_id, created_at, seen_at, expires_at,"
        " address, user_agent) VALUES (:hash, :user_id, :organization_id, :now, :now, :expires_at,"
        " :address, :user_agent)",
        hash=token_hash(token),
        user_id=user_id,
        organization_id=user["organization_id"],
        now=now,
        expires_at=now + int(settings.session_days * DAY_MS),
        address=_truncate(origin.address, _MAX_ADDRESS_LENGTH),
        user_agent=_truncate(origin.user_agent, _MAX_USER_AGENT_LENGTH),
    )
    await tx.execute("UPDATE users SET last_sign_in_at = :now WHERE id = :id", id=user_id, now=now)
    if how is not None:
        actor = audit.acting_user(user_id, user["name"] or user["email"], origin.address)
        entry = audit.Entry(actor, "user.signed_in", user["email"], {"how": how})
        await audit.write(tx, user["organization_id"], entry)
    return token


start_session = in_transaction(open_session)


async def delete_session(tx: Transaction, token: str) -> None:
    await tx.execute("DELETE FROM sessions WHERE hash = :hash", hash=token_hash(token))
    await tx.invalidate(TOPIC)


async def delete_sessions(tx: Transaction, user_id: str, *, keep: bytes | None = None) -> int:
    """Also deletes the user's sign-in links, which would start new sessions, and the password reset
    links that they created.

    `keep` is the hash of a session that continues. Returns the number of deleted sessions.
    """
    # Sessions first: see `hold_session`. No token has an empty hash.
    deleted = await tx.execute(
        "DELETE FROM sessions WHERE user_id = :user_id AND hash <> :keep",
        user_id=user_id,
        keep=keep or b"",
    )
    await tx.execute("DELETE FROM sign_in_links WHERE user_id = :user_id", user_id=user_id)
    await delete_links_created_by(tx, user_id)
    await tx.invalidate(TOPIC)
    return deleted


async def hold_session(tx: Transaction, hashed: bytes) -> None:
    """The session cannot end before the transaction does: whoever ends it then sees, and revokes,
    what its user created. Raises Problem if it has ended."""
    session = await tx.fetch_one(
        "SELECT hash FROM sessions WHERE hash = :hash /*postgresql FOR KEY SHARE */", hash=hashed
    )
    if session is None:
        raise _session_ended()


async def delete_links_created_by(
    tx: Transaction, user_id: str, organization_id: str | None = None
) -> None:
    """Password reset links for members of one organization, or of all: whoever stole a session may
    have created them."""
    await tx.execute(
        "DELETE FROM sign_in_links WHERE created_by = :user_id AND (organization_id IS NULL"
        " OR organization_id = COALESCE(CAST(:organization_id AS TEXT), organization_id))",
        user_id=user_id,
        organization_id=organization_id,
    )


async def find_viewer(
    db: Database, settings: Settings, token: str, *, is_request: bool = True
) -> Viewer | None:
    """None if the token is unknown or expired, or its user is no longer a member.

    `is_request` is false for an open event stream, which must not keep an idle session alive.
    """
    if not is_well_formed(token, SESSION_PREFIX):
        return None
    row = await db.fetch_one(
        "SELECT s.hash, s.created_at, s.seen_at, s.expires_at, u.id AS user_id, u.email, u.name,"
        " u.is_operator, m.role, o.id AS organization_id, o.name AS organization, o.plan,"
        " (SELECT COUNT(*) FROM memberships n WHERE n.user_id = u.id) AS memberships,"
        f" {DATABASE_NOW} AS now FROM sessions s JOIN users u ON u.id = s.user_id"
        " JOIN memberships m ON m.user_id = u.id AND m.organization_id = s.organization_id"
        " JOIN organizations o ON o.id = m.organization_id WHERE s.hash = :hash",
        hash=token_hash(token),
        now=now_ms(),
    )
    if row is None or _is_expired(row, settings, row["now"]):
        return None
    now = row["now"]
    if is_request and now - row["seen_at"] >= _SEEN_INTERVAL_MS:
        # Pages must remain readable while the store cannot write.
        with contextlib.suppress(StoreUnavailable):
            statement = "UPDATE sessions SET seen_at = :now WHERE hash = :hash AND seen_at < :now"
            await db.transact(execute, statement, hash=token_hash(token), now=now)
    return _viewer(row, token)


async def list_sessions(db: Database, user_id: str) -> list[SessionView]:
    """The most recently used first. May include sessions that expired by idling."""
    rows = await db.fetch_all(
        f"SELECT * FROM sessions WHERE user_id = :user_id AND expires_at > {DATABASE_NOW}"
        " ORDER BY seen_at DESC, hash",
        user_id=user_id,
        now=now_ms(),
    )
    return [_session_view(row) for row in rows]


async def _select_organization(tx: Transaction, user_id: str, organization_id: str | None) -> Row:
    """The requested organization, else the most recently used, else the first by name."""
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
            "You are not a member of any organization. Ask an admin for an invitation.",
        )
    return row


def _truncate(text: str, max_length: int) -> str:
    return replace_unstorable(text)[:max_length]


def _is_expired(row: Row, settings: Settings, now: int) -> bool:
    """Uses the current settings, so that shorter limits apply to existing sessions too."""
    max_idle_ms = int(settings.session_idle_hours * HOUR_MS)
    max_age_ms = int(settings.session_days * DAY_MS)
    expires_at: int = min(
        row["expires_at"], row["seen_at"] + max_idle_ms, row["created_at"] + max_age_ms
    )
    return expires_at <= now


def _viewer(row: Row, token: str) -> Viewer:
    is_operator = bool(row["is_operator"])
    session = bytes(row["hash"])
    return to_struct(row, Viewer, session=session, csrf=_csrf(token), is_operator=is_operator)


def _csrf(token: str) -> str:
    """Derived from the token, so that it need not be stored."""
    digest = hmac.digest(token.encode(), b"csrf", "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _session_view(row: Row) -> SessionView:
    hashed = bytes(row["hash"])
    return to_struct(row, SessionView, id=session_id(hashed), hash=hashed)


@in_transaction
async def switch_organization(tx: Transaction, token: str, user_id: str, organization: str) -> None:
    """Move the session to another of the user's organizations."""
    row = await tx.fetch_one(
        "SELECT o.id FROM organizations o JOIN memberships m ON m.organization_id = o.id"
        " WHERE o.name = :name AND m.user_id = :user_id",
        name=organization,
        user_id=user_id,
    )
    if row is None:
        raise Problem(
            "not_a_member",
            f"You are not a member of {organization!r}. Ask one of its admins for an invitation.",
        )
    switched = await tx.execute(
        "UPDATE sessions SET organization_id = :organization_id"
        " WHERE hash = :hash AND user_id = :user_id",
        organization_id=row["id"],
        hash=token_hash(token),
        user_id=user_id,
    )
    if not switched:
        raise _session_ended()
    await tx.invalidate(TOPIC)


def _session_ended() -> Problem:
    return Problem("not_signed_in", "Your session has ended; sign in again.")
