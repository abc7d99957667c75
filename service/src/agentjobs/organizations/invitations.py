"""Invitations: links with which one e-mail address can join an organization for seven days.

An invitation is valid only while whoever created it may still invite. The column `invited_by` has
the ID of a user; rows of earlier versions and of the command line have a name.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.memberships import (
    ADMIN,
    check_role,
    insert_membership,
    lock_organization,
)
from agentjobs.organizations.passwords import check_password
from agentjobs.organizations.throttle import Attempt, count_attempt, uncount_attempt
from agentjobs.organizations.tokens import new_token, token_hash
from agentjobs.organizations.users import (
    ADMINISTRATOR,
    USERS_TOPIC,
    NewUser,
    User,
    insert_member,
    new_user,
    normalize_email,
)
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

INVITATION_PREFIX = "aji_"

_LIFETIME_MS = 7 * DAY_MS
_OPEN = f"i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > {DATABASE_NOW}"
_SELECT = (
    "SELECT i.id, i.organization_id, i.email, i.role, i.created_at, i.expires_at,"
    " o.name AS organization, COALESCE(NULLIF(c.name, ''), c.email, i.invited_by) AS invited_by,"
    " EXISTS (SELECT 1 FROM users u WHERE u.email = i.email) AS has_account"
    " FROM invitations i JOIN organizations o ON o.id = i.organization_id"
    f" LEFT JOIN users c ON c.id = i.invited_by WHERE {_OPEN}"
    " AND (i.invited_by NOT LIKE 'usr!_%' ESCAPE '!' OR c.is_operator"
    "  OR EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = c.id"
    f"   AND m.organization_id = i.organization_id AND m.role = '{ADMIN}'))"
)


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """`has_account`: a user with this address exists and must sign in to accept."""

    id: str
    organization_id: str
    organization: str
    email: str
    role: str
    invited_by: str
    created_at: int
    expires_at: int
    has_account: bool


@audit.in_transaction
async def invite(
    tx: Transaction, organization_id: str, email: str, role: str
) -> tuple[Invitation, str]:
    """Returns the invitation and its token. Replaces an open invitation to the same address."""
    check_role(role)
    email = normalize_email(email)
    if email == ADMINISTRATOR:
        # `ensure_administrator` makes this user an admin of organizations without one.
        raise Problem("invalid_email", f"{ADMINISTRATOR} is reserved for the operator.")
    await lock_organization(tx, organization_id)
    member = await tx.fetch_one(
        "SELECT u.id FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.organization_id = :organization_id AND u.email = :email",
        organization_id=organization_id,
        email=email,
    )
    if member is not None:
        raise Problem("already_member", f"{email} is already a member; change their role instead.")
    now = await tx.clock_ms()
    await tx.execute(
        "UPDATE invitations SET revoked_at = :now WHERE organization_id = :organization_id"
        " AND email = :email AND accepted_at IS NULL AND revoked_at IS NULL",
        organization_id=organization_id,
        email=email,
        now=now,
    )
    token, actor = new_token(INVITATION_PREFIX), audit.current_actor()
    await tx.execute(
        "INSERT INTO invitations"
        " (id, organization_id, email, role, hash, invited_by, created_at, expires_at)"
        " VALUES (:id, :organization_id, :email, :role, :hash, :invited_by, :now, :expires_at)",
        id=new_id("inv"),
        organization_id=organization_id,
        email=email,
        role=role,
        hash=token_hash(token),
        invited_by=actor.id or actor.name,
        now=now,
        expires_at=now + _LIFETIME_MS,
    )
    tx.announce(USERS_TOPIC)
    await audit.record(tx, organization_id, "invitation.created", email, role=role)
    invitation = await _find(tx, token)
    if invitation is None:
        raise Problem("not_admin", "Only admins can invite; your role has just been changed.")
    return invitation, token


async def list_invitations(db: Database, organization_id: str) -> list[Invitation]:
    """Open invitations, oldest first."""
    rows = await db.fetch_all(
        f"{_SELECT} AND i.organization_id = :organization_id ORDER BY i.id",
        organization_id=organization_id,
        now=now_ms(),
    )
    return [_invitation(row) for row in rows]


@audit.in_transaction
async def revoke_invitation(tx: Transaction, organization_id: str, invitation_id: str) -> None:
    row = await tx.fetch_one(
        "UPDATE invitations SET revoked_at = :now WHERE id = :id"
        " AND organization_id = :organization_id AND accepted_at IS NULL AND revoked_at IS NULL"
        " RETURNING email, role",
        id=invitation_id,
        organization_id=organization_id,
        now=await tx.clock_ms(),
    )
    if row is None:
        raise Problem(
            "invitation_not_found",
            "The invitation is not open: it was already accepted or revoked.",
        )
    await audit.record(tx, organization_id, "invitation.revoked", row["email"], role=row["role"])


async def find_invitation(db: Database, token: str) -> Invitation:
    invitation = await _find(db, token)
    if invitation is None:
        raise _not_valid()
    return invitation


@audit.in_transaction
async def accept_invitation(tx: Transaction, token: str, user: User) -> Invitation:
    """`user` is signed in and accepts the invitation."""
    invitation = await _claim(tx, token, user.email)
    actor = user.as_actor()
    await _write_accepted(tx, invitation, actor)
    organization_id, role = invitation.organization_id, invitation.role
    await insert_membership(tx, organization_id, user.id, user.email, role, actor)
    return invitation


async def accept_as_new_user(db: Database, token: str, *, name: str, password: str) -> User:
    """Accept the invitation and create the account that it needs."""
    invitation = await find_invitation(db, token)
    check_password(password, invitation.email)
    # Before hashing, which many requests with the same link would keep busy for everybody.
    attempt = Attempt(token, audit.current_actor().address)
    await count_attempt(db, attempt)
    new = await new_user(invitation.email, name=name, password=password)
    user = await join_as_new_user(db, token, new)
    await db.transact(uncount_attempt, attempt)
    return user


@audit.in_transaction
async def join_as_new_user(tx: Transaction, token: str, new: NewUser) -> User:
    """Create the user and the membership and use up the invitation, in one transaction."""
    invitation = await _claim(tx, token, new.email)
    user = await insert_member(tx, invitation.organization_id, invitation.role, new)
    await _write_accepted(tx, invitation, user.as_actor())
    return user


async def organization_joined_by(db: Database, token: str, user: User) -> str | None:
    """The organization's id if this user accepted the invitation and is still a member."""
    row = await db.fetch_one(
        "SELECT i.organization_id FROM invitations i JOIN memberships m"
        " ON m.organization_id = i.organization_id AND m.user_id = :user_id"
        " WHERE i.hash = :hash AND i.email = :email AND i.accepted_at IS NOT NULL",
        hash=token_hash(token),
        user_id=user.id,
        email=user.email,
    )
    return None if row is None else row["organization_id"]


async def _find(db: Database | Transaction, token: str) -> Invitation | None:
    row = await db.fetch_one(f"{_SELECT} AND i.hash = :hash", hash=token_hash(token), now=now_ms())
    return None if row is None else _invitation(row)


async def _claim(tx: Transaction, token: str, email: str) -> Invitation:
    """Mark the invitation as accepted. Only one of two concurrent requests succeeds."""
    invitation = await _find(tx, token)
    updated = await tx.execute(
        "UPDATE invitations SET accepted_at = :now"
        " WHERE hash = :hash AND accepted_at IS NULL AND revoked_at IS NULL",
        hash=token_hash(token),
        now=await tx.clock_ms(),
    )
    if invitation is None or not updated:
        raise _not_valid()
    if invitation.email != email:
        raise Problem(
            "other_invitation",
            f"This invitation is for {invitation.email}, but you are signed in as {email}. "
            f"Sign in as {invitation.email}, or ask for an invitation to {email}.",
        )
    return invitation


async def _write_accepted(tx: Transaction, invitation: Invitation, actor: audit.Actor) -> None:
    details = {"role": invitation.role, "invited_by": invitation.invited_by}
    entry = audit.Entry(actor, "invitation.accepted", invitation.email, details)
    await audit.write(tx, invitation.organization_id, entry)


def _invitation(row: Row) -> Invitation:
    return to_struct(row, Invitation, has_account=bool(row["has_account"]))


def _not_valid() -> Problem:
    return Problem(
        "invitation_not_valid",
        "This invitation was already accepted, was revoked or has expired after 7 days, or its "
        "sender is no longer an admin. Ask an admin of the organization for a new one.",
    )
