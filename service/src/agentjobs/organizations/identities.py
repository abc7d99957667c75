"""Maps an identity from an OpenID Connect provider to a user. Knows nothing of HTTP.

An e-mail address counts only if the provider has verified it.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.invitations import accept_invitation, join_as_new_user
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sessions import delete_sessions
from agentjobs.organizations.users import (
    COLUMNS,
    NewUser,
    User,
    add_new_user,
    find_user,
    normalize_email,
    user_from_row,
)
from agentjobs.store.database import Database, IntegrityError, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.safe_text import mask_unprintable
from agentjobs_runtime.settings import Settings

_MAX_NAME_LENGTH = 200


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str = ""


async def resolve_identity(
    db: Database, settings: Settings, identity: Identity, *, invitation: str | None = None
) -> User:
    """Find the user by identity or email address, or create one by invitation or settings."""
    try:
        return await _resolve_identity(db, settings, identity, invitation)
    except IntegrityError:
        pass
    except Problem as problem:
        if problem.code not in ("email_taken", "other_identity"):
            raise
    # A concurrent request of the same person has created the user.
    return await _resolve_identity(db, settings, identity, invitation)


async def _resolve_identity(
    db: Database, settings: Settings, identity: Identity, invitation: str | None
) -> User:
    user = await _find_linked_user(db, identity)
    if user is None:
        email = _verified_email(identity)
        user = await find_user(db, email)
        if user is None:
            return await _create_user(db, settings, identity, email, invitation)
        user = await _link(db, user, identity)
    if invitation is not None:
        await _accept_if_open(db, invitation, user)
    return user


async def _accept_if_open(db: Database, invitation: str, user: User) -> None:
    """An invitation that is no longer valid must not prevent signing in."""
    try:
        await accept_invitation(db, invitation, user)
    except Problem as problem:
        if problem.code != "invitation_not_valid":
            raise


async def _find_linked_user(db: Database, identity: Identity) -> User | None:
    row = await db.fetch_one(
        f"SELECT {COLUMNS} FROM users WHERE oidc_issuer = :issuer AND oidc_subject = :subject",
        issuer=identity.issuer,
        subject=identity.subject,
    )
    return None if row is None else user_from_row(row)


def _verified_email(identity: Identity) -> str:
    if not identity.email_verified:
        raise Problem(
            "email_not_verified",
            "Your identity provider has not verified your email address. Verify it there, then "
            "sign in again.",
        )
    return normalize_email(identity.email)


async def _create_user(
    db: Database, settings: Settings, identity: Identity, email: str, invitation: str | None
) -> User:
    new = NewUser(
        email=email,
        name=_clean_name(identity.name),
        oidc_issuer=identity.issuer,
        oidc_subject=identity.subject,
    )
    if invitation is not None:
        return await join_as_new_user(db, invitation, new)
    if not settings.oidc_join_role or not _has_allowed_domain(settings, email):
        raise Problem(
            "not_invited",
            "You do not have an account yet. Ask an admin of your organization for an invitation.",
        )
    owner = await find_organization(db, settings.oidc_join_organization)
    return await add_new_user(db, owner.id, settings.oidc_join_role, new)


def _has_allowed_domain(settings: Settings, email: str) -> bool:
    """An empty list allows every domain; a domain does not include its subdomains."""
    allowed = {domain.strip().lower().lstrip("@") for domain in settings.oidc_email_domains}
    return not allowed or email.rpartition("@")[2] in allowed


def _clean_name(name: str) -> str:
    """An unusual name must not prevent signing in."""
    return " ".join(mask_unprintable(name, " ").split())[:_MAX_NAME_LENGTH]


@audit.in_transaction
async def _link(tx: Transaction, user: User, identity: Identity) -> User:
    """Link the identity and remove the password and all sessions.

    Until now nothing proved that the e-mail address is the user's: somebody else may have used
    the invitation and chosen the password.
    """
    row = await tx.fetch_one(
        "UPDATE users SET oidc_issuer = :issuer, oidc_subject = :subject, password_hash = NULL"
        " WHERE id = :id AND (oidc_subject IS NULL OR oidc_issuer <> :issuer)"
        f" RETURNING {COLUMNS}",
        id=user.id,
        issuer=identity.issuer,
        subject=identity.subject,
    )
    if row is None:
        raise Problem(
            "other_identity",
            f"{user.email} is linked to a different account of your identity provider. Contact "
            "the operator of this service.",
        )
    await delete_sessions(tx, user.id)
    entry = audit.Entry(user.as_actor(), "user.linked", user.email, {"issuer": identity.issuer})
    await audit.write_for_user(tx, user.id, entry)
    return user_from_row(row)
