"""Password reset links: each sets a new password without the old one, once, within a day.

Admins make them only for accounts that belong to no other organization, because the link gives
access to the whole account. A link works only while whoever created it may still create it.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.memberships import ADMIN
from agentjobs.organizations.passwords import check_password, hash_password
from agentjobs.organizations.sessions import (
    Origin,
    delete_sessions,
    hold_session,
    open_session,
)
from agentjobs.organizations.throttle import (
    Attempt,
    count_attempt,
    forget_failures,
    uncount_attempt,
)
from agentjobs.organizations.tokens import is_well_formed, new_token, token_hash
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

# Other than the prefix of sign-in links: a link of one kind is never accepted as the other, also
# not by a process of a version without reset links.
RESET_PREFIX = "ajr_"

# A link that an admin made does not work for an account that has joined another organization.
_IS_VALID = (
    f"l.hash = :hash AND l.purpose = 'password_reset' AND l.expires_at > {DATABASE_NOW}"
    " AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = l.user_id"
    "  AND m.organization_id = COALESCE(l.organization_id, m.organization_id))"
    " AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = l.user_id"
    "  AND m.organization_id <> l.organization_id)"
    " AND (l.created_by IS NULL"
    "  OR EXISTS (SELECT 1 FROM users c WHERE c.id = l.created_by AND c.is_operator)"
    "  OR EXISTS (SELECT 1 FROM memberships c WHERE c.user_id = l.created_by"
    f"   AND c.organization_id = l.organization_id AND c.role = '{ADMIN}'))"
)


class ResetLink(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    email: str
    name: str
    expires_at: int


@audit.in_transaction
async def create_reset_link(
    tx: Transaction,
    user_id: str,
    *,
    organization_id: str | None = None,
    is_by_operator: bool = False,
    session: bytes | None = None,
) -> tuple[ResetLink, str]:
    """Returns the token, which must reach only this user. Earlier links stop working.

    `organization_id` is that of the admin who makes it; None is the command line, which may reset
    every account. `is_by_operator`: the admin is an operator, too. `session` is the admin's: the
    link is not made if it has ended.
    """
    if session is not None:
        await hold_session(tx, session)
    actor, token = audit.current_actor(), new_token(RESET_PREFIX)
    user = await _user(tx, user_id, organization_id)
    _check(user, organization_id, actor, is_by_operator=is_by_operator)
    # If two links are made concurrently, the later one replaces the earlier one.
    await tx.fetch_one(
        "SELECT id FROM users WHERE id = :id /*postgresql FOR NO KEY UPDATE */", id=user_id
    )
    await delete_reset_links(tx, user_id)
    now = await tx.clock_ms()
    await tx.execute(
        "INSERT INTO sign_in_links (hash, user_id, purpose, organization_id, created_by,"
        " created_at, expires_at) VALUES (:hash, :user_id, 'password_reset', :organization_id,"
        " :created_by, :now, :expires_at)",
        hash=token_hash(token),
        user_id=user_id,
        organization_id=None if is_by_operator else organization_id,
        created_by=actor.id if actor.kind == "user" else None,
        now=now,
        expires_at=now + DAY_MS,
    )
    entry = audit.entry("password.reset_link_created", user["email"])
    await audit.write_for_user(tx, user_id, entry)
    link = ResetLink(
        user_id=user_id, email=user["email"], name=user["name"], expires_at=now + DAY_MS
    )
    return link, token


async def delete_reset_links(tx: Transaction, user_id: str) -> None:
    await tx.execute(
        "DELETE FROM sign_in_links WHERE user_id = :id AND purpose = 'password_reset'", id=user_id
    )


async def find_reset_link(db: Database, token: str) -> ResetLink:
    link = await _find(db, token)
    if link is None:
        raise _not_valid()
    return link


async def reset_password(
    db: Database,
    settings: Settings,
    token: str,
    new: str,
    origin: Origin,
    *,
    replacing: str | None = None,
) -> str:
    """Ends all sessions of the account and returns the token of a new one. The link becomes
    invalid."""
    # Anyone can send any text: refuse malformed tokens without a write transaction.
    if not is_well_formed(token, RESET_PREFIX):
        raise _not_valid()
    link = await _find(db, token)
    if link is not None:
        check_password(new, link.email)
    # Not by e-mail address: whoever guessed the old password too often may use the link.
    attempt = Attempt(token, origin.address)
    await count_attempt(db, attempt)
    if link is None:
        raise _not_valid()
    hashed = await hash_password(new)
    return await db.transact(_reset, settings, token, link, hashed, attempt, origin, replacing)


async def _find(db: Database, token: str) -> ResetLink | None:
    if not is_well_formed(token, RESET_PREFIX):
        return None
    row = await db.fetch_one(
        "SELECT l.user_id, u.email, u.name, l.expires_at FROM sign_in_links l"
        f" JOIN users u ON u.id = l.user_id WHERE {_IS_VALID}",
        hash=token_hash(token),
        now=now_ms(),
    )
    return None if row is None else ResetLink(**dict(row))


async def _user(tx: Transaction, user_id: str, organization_id: str | None) -> Row:
    row = await tx.fetch_one(
        "SELECT u.id, u.email, u.name, u.password_hash, u.oidc_subject, u.is_operator,"
        " COUNT(CASE WHEN m.organization_id = CAST(:organization_id AS TEXT) THEN 1 END) AS here,"
        " COUNT(m.organization_id) AS memberships"
        " FROM users u LEFT JOIN memberships m ON m.user_id = u.id WHERE u.id = :id"
        " GROUP BY u.id, u.email, u.name, u.password_hash, u.oidc_subject, u.is_operator",
        id=user_id,
        organization_id=organization_id,
    )
    if row is None or (organization_id is not None and not row["here"]):
        raise Problem("member_not_found", "This user is not a member of the organization.")
    return row


def _check(
    user: Row, organization_id: str | None, actor: audit.Actor, *, is_by_operator: bool
) -> None:
    email = user["email"]
    if not user["memberships"]:
        raise Problem(
            "no_membership", "This user is not a member of any organization; add them to one first."
        )
    if user["password_hash"] is None and user["oidc_subject"] is not None:
        raise Problem(
            "managed_by_provider",
            f"{email} signs in with the identity provider and has no password here.",
        )
    if organization_id is None:
        return
    by_command = f"An operator can create the link with `agentjobs users reset-link {email}`."
    if user["id"] == actor.id:
        # Otherwise a stolen session would be enough to keep the account.
        raise Problem("own_password", "Change your own password on your account page.")
    if user["is_operator"]:
        raise Problem("operator_account", f"{email} is an operator of the service. {by_command}")
    if user["memberships"] > 1 and not is_by_operator:
        raise Problem(
            "other_organizations",
            f"{email} also belongs to another organization, to which the link would give access. "
            f"{by_command}",
        )


async def _reset(
    tx: Transaction,
    settings: Settings,
    token: str,
    link: ResetLink,
    password_hash: str,
    attempt: Attempt,
    origin: Origin,
    replacing: str | None,
) -> str:
    # Only one of two concurrent requests deletes the row.
    deleted = await tx.execute(
        "DELETE FROM sign_in_links WHERE hash IN"
        f" (SELECT l.hash FROM sign_in_links l WHERE {_IS_VALID})",
        hash=token_hash(token),
        now=now_ms(),
    )
    if not deleted:
        raise _not_valid()
    await tx.execute(
        "UPDATE users SET password_hash = :password_hash WHERE id = :id",
        id=link.user_id,
        password_hash=password_hash,
    )
    await delete_sessions(tx, link.user_id)
    await uncount_attempt(tx, attempt)
    await forget_failures(tx, link.email)
    actor = audit.acting_user(link.user_id, link.name or link.email, origin.address)
    await audit.write_for_user(
        tx, link.user_id, audit.Entry(actor, "password.reset", link.email, {})
    )
    # Not afterwards: the password may change again, which must end this session as well.
    how = "password reset link"
    return await open_session(tx, settings, link.user_id, origin, replacing=replacing, how=how)


def _not_valid() -> Problem:
    return Problem(
        "reset_link_not_valid",
        "This password reset link was already used, was replaced by a newer one, was revoked or "
        "has expired. Ask an admin of your organization for a new one.",
    )
