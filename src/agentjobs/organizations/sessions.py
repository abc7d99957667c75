"""Sessions: a token in a browser, its hash here, and who that makes the browser.

Knows neither cookies nor how somebody proved who they are. A session stands in one organization.
"""

import base64
import contextlib
import hmac

import msgspec

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.organizations.key_ring import Caller
from agentjobs.organizations.session_changes import (
    SESSION_PREFIX,
    TOPIC,
    Origin,
    open_session,
    session_id,
)
from agentjobs.organizations.tokens import is_well_formed, token_hash
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Row, StoreUnavailable, Transaction

__all__ = [
    "Origin",
    "SessionView",
    "Viewer",
    "find_viewer",
    "list_sessions",
    "start_session",
    "switch_organization",
]

_HOUR_MS = 3_600 * SECOND_MS
_SEEN_EVERY_MS = 60 * SECOND_MS


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """A person in front of a page. `session` is the hash; `memberships` how many they have."""

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

    @property
    def called(self) -> str:
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
            name=self.called,
        )


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody is shown of their own session. `id` is the beginning of its hash."""

    id: str
    hash: bytes
    created_at: int
    seen_at: int
    address: str
    user_agent: str


async def start_session(
    db: Database,
    settings: Settings,
    user_id: str,
    origin: Origin,
    *,
    organization_id: str | None = None,
    replacing: str | None = None,
    how: str | None = None,
) -> str:
    """The token, to be kept by the browser alone. `how` is for the audit log; None: no entry."""
    return await db.transact(
        open_session,
        settings,
        user_id,
        origin,
        organization_id=organization_id,
        replacing=replacing,
        how=how,
    )


async def find_viewer(
    db: Database, settings: Settings, token: str, *, is_request: bool = True
) -> Viewer | None:
    """None for a token that is unknown or over, and for one whose user was removed.

    An open stream that looks again is no request: nobody need sit before it.
    """
    if not is_well_formed(token, SESSION_PREFIX):
        return None
    row = await db.fetch_one(
        "SELECT s.hash, s.created_at, s.seen_at, s.expires_at, u.id AS user_id, u.email, u.name,"
        " m.role, o.id AS organization_id, o.name AS organization, o.plan,"
        " (SELECT COUNT(*) FROM memberships n WHERE n.user_id = u.id) AS memberships"
        " FROM sessions s JOIN users u ON u.id = s.user_id"
        " JOIN memberships m ON m.user_id = u.id AND m.organization_id = s.organization_id"
        " JOIN organizations o ON o.id = m.organization_id WHERE s.hash = :hash",
        hash=token_hash(token),
    )
    now = now_ms()
    if row is None or _is_over(row, settings, now):
        return None
    if is_request and now - row["seen_at"] >= _SEEN_EVERY_MS:
        # A store that is full can still be looked at.
        with contextlib.suppress(StoreUnavailable):
            await db.transact(_write_seen, token_hash(token), now)
    return _viewer(row, token)


async def list_sessions(db: Database, user_id: str) -> list[SessionView]:
    """The one used last comes first. Some may be idle for too long, and not be pruned yet."""
    rows = await db.fetch_all(
        "SELECT * FROM sessions WHERE user_id = :user_id AND expires_at > :now"
        " ORDER BY seen_at DESC, hash",
        user_id=user_id,
        now=now_ms(),
    )
    return [_session_view(row) for row in rows]


async def switch_organization(db: Database, token: str, user_id: str, organization: str) -> None:
    """Stand in another of the user's organizations from now on."""
    await db.transact(_switch, token_hash(token), user_id, organization)


def _is_over(row: Row, settings: Settings, now: int) -> bool:
    """By the settings of now: an operator who makes sessions shorter means those there are, too."""
    idle = int(settings.session_idle_hours * _HOUR_MS)
    most = int(settings.session_days * DAY_MS)
    ends_at: int = min(row["expires_at"], row["seen_at"] + idle, row["created_at"] + most)
    return ends_at <= now


def _viewer(row: Row, token: str) -> Viewer:
    return Viewer(
        user_id=row["user_id"],
        email=row["email"],
        name=row["name"],
        role=row["role"],
        organization_id=row["organization_id"],
        organization=row["organization"],
        plan=row["plan"],
        session=bytes(row["hash"]),
        csrf=_csrf(token),
        created_at=row["created_at"],
        memberships=row["memberships"],
    )


def _csrf(token: str) -> str:
    """Derived, so that nothing of it is stored: only who has the token can know it."""
    digest = hmac.digest(token.encode(), b"csrf", "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _session_view(row: Row) -> SessionView:
    hashed = bytes(row["hash"])
    return SessionView(
        id=session_id(hashed),
        hash=hashed,
        created_at=row["created_at"],
        seen_at=row["seen_at"],
        address=row["address"],
        user_agent=row["user_agent"],
    )


async def _write_seen(tx: Transaction, hashed: bytes, now: int) -> None:
    await tx.execute(
        "UPDATE sessions SET seen_at = :now WHERE hash = :hash AND seen_at < :now",
        hash=hashed,
        now=now,
    )


async def _switch(tx: Transaction, hashed: bytes, user_id: str, organization: str) -> None:
    row = await tx.fetch_one(
        "SELECT o.id FROM organizations o JOIN memberships m ON m.organization_id = o.id"
        " WHERE o.name = :name AND m.user_id = :user_id",
        name=organization,
        user_id=user_id,
    )
    if row is None:
        raise Problem(
            "not_a_member",
            f"You are not in the organization {organization!r}; "
            "ask one of its administrators for an invitation.",
        )
    switched = await tx.execute(
        "UPDATE sessions SET organization_id = :organization_id"
        " WHERE hash = :hash AND user_id = :user_id",
        organization_id=row["id"],
        hash=hashed,
        user_id=user_id,
    )
    if not switched:
        raise Problem("not_signed_in", "Your session is over; sign in again.")
    await tx.invalidate(TOPIC)
