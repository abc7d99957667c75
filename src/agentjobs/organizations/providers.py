"""Who somebody is here that a provider of OpenID Connect has vouched for. Refuses to know HTTP.

An e-mail address counts only if the provider has verified it.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.invitations import accept_invitation, join_as_new
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.session_changes import end_all
from agentjobs.organizations.user_audit import acting_user, write_for_user
from agentjobs.organizations.users import (
    COLUMNS,
    NewUser,
    User,
    find_user,
    insert_member,
    normal_email,
    user_of,
)
from agentjobs.problems import Problem
from agentjobs.safe_text import mask_unprintable
from agentjobs.settings import Settings
from agentjobs.store.database import Database, IntegrityError, Transaction

_MOST_NAME_LENGTH = 200


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str = ""


async def user_of_identity(
    db: Database, settings: Settings, identity: Identity, *, invitation: str | None = None
) -> User:
    """By the identity, or the e-mail address, or the invitation's token, or the settings."""
    try:
        return await _user_of_identity(db, settings, identity, invitation)
    except IntegrityError:
        pass
    except Problem as problem:
        if problem.code not in ("email_taken", "other_identity"):
            raise
    # A second request of the same person was quicker, and they are known now.
    return await _user_of_identity(db, settings, identity, invitation)


async def _user_of_identity(
    db: Database, settings: Settings, identity: Identity, invitation: str | None
) -> User:
    user = await _linked(db, identity)
    if user is None:
        email = _verified_email(identity)
        user = await find_user(db, email)
        if user is None:
            return await _newcomer(db, settings, identity, email, invitation)
        user = await db.transact(_link, user, identity, audit.current_actor().address)
    if invitation is not None:
        await _accept_if_open(db, invitation, user)
    return user


async def _accept_if_open(db: Database, invitation: str, user: User) -> None:
    """One that is over does not keep them from where they are already."""
    try:
        await accept_invitation(db, invitation, user)
    except Problem as problem:
        if problem.code != "invitation_not_valid":
            raise


async def _linked(db: Database, identity: Identity) -> User | None:
    row = await db.fetch_one(
        f"SELECT {COLUMNS} FROM users WHERE oidc_issuer = :issuer AND oidc_subject = :subject",
        issuer=identity.issuer,
        subject=identity.subject,
    )
    return None if row is None else user_of(row)


def _verified_email(identity: Identity) -> str:
    if not identity.email_verified:
        raise Problem(
            "email_not_verified",
            "Your provider has not verified your e-mail address; verify it there, then sign in "
            "again.",
        )
    return normal_email(identity.email)


async def _newcomer(
    db: Database, settings: Settings, identity: Identity, email: str, invitation: str | None
) -> User:
    new = NewUser(
        email=email,
        name=_printable(identity.name),
        oidc_issuer=identity.issuer,
        oidc_subject=identity.subject,
    )
    if invitation is not None:
        return await join_as_new(db, invitation, new)
    if not settings.oidc_join_role or not _is_of_the_house(settings, email):
        raise Problem(
            "not_invited",
            "You have no account here yet; ask an administrator of your organization for an "
            "invitation.",
        )
    owner = await find_organization(db, settings.oidc_join_organization)
    address = audit.current_actor().address
    role = settings.oidc_join_role
    return await db.transact(insert_member, owner.id, role, new, address=address)


def _is_of_the_house(settings: Settings, email: str) -> bool:
    """An empty list is every domain; a domain does not stand for those below it."""
    allowed = {domain.strip().lower().lstrip("@") for domain in settings.oidc_email_domains}
    return not allowed or email.rpartition("@")[2] in allowed


def _printable(name: str) -> str:
    """A provider's name for somebody is no reason to turn them away."""
    return " ".join(mask_unprintable(name, " ").split())[:_MOST_NAME_LENGTH]


async def _link(tx: Transaction, user: User, identity: Identity, address: str) -> User:
    """The first proof that the address is theirs.

    Whoever had their invitation before may have chosen the password: it ends, and all sessions.
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
            f"{user.email} belongs to another account of your provider; ask the operator of this "
            "service which of the two is yours.",
        )
    await end_all(tx, user.id)
    actor = acting_user(user.id, user.name or user.email, address)
    entry = audit.Entry(actor, "user.linked", user.email, {"issuer": identity.issuer})
    await write_for_user(tx, user.id, entry)
    return user_of(row)
