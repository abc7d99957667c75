"""Signing in: who somebody says to be, and the proof, turned into a session.

Says the same of everything that is wrong, so that nobody learns who has an account here.
"""

import logging

import msgspec

from agentjobs.organizations.invitations import organization_joined_by
from agentjobs.organizations.passwords import hash_password, needs_rehash, verify_password
from agentjobs.organizations.providers import Identity, user_of_identity
from agentjobs.organizations.session_changes import Origin, open_session
from agentjobs.organizations.sessions import start_session
from agentjobs.organizations.throttle import Attempt, count_attempt, forgive
from agentjobs.organizations.users import normal_email
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Row, Transaction

_log = logging.getLogger(__name__)


class _Proven(msgspec.Struct, frozen=True, kw_only=True):
    """The password was the one of `seen`, and is kept as `kept` from now on."""

    user_id: str
    seen: str
    kept: str
    attempt: Attempt
    origin: Origin
    replacing: str | None


async def sign_in_with_password(
    db: Database,
    settings: Settings,
    email: str,
    password: str,
    origin: Origin,
    *,
    replacing: str | None = None,
) -> str:
    """The token of the new session."""
    attempt = Attempt(email, origin.address)
    await count_attempt(db, attempt)
    user = await _user(db, email)
    hashed = None if user is None else user["password_hash"]
    is_right = await verify_password(hashed, password)
    if user is None or hashed is None or not is_right:
        raise _failed(user, origin, "wrong password" if hashed else "no password")
    proven = _Proven(
        user_id=user["id"],
        seen=hashed,
        kept=await hash_password(password) if needs_rehash(hashed) else hashed,
        attempt=attempt,
        origin=origin,
        replacing=replacing,
    )
    try:
        return await db.transact(_open, settings, proven)
    except Problem as problem:
        raise _failed(user, origin, problem.code) from None


async def sign_in_with_identity(
    db: Database,
    settings: Settings,
    identity: Identity,
    origin: Origin,
    *,
    invitation: str | None = None,
    replacing: str | None = None,
) -> str:
    """The same for what a provider of OpenID Connect says, once that was checked.

    Who comes with an invitation stands in the organization that invited them.
    """
    user = await user_of_identity(db, settings, identity, invitation=invitation)
    joined = None if invitation is None else await organization_joined_by(db, invitation, user)
    return await start_session(
        db,
        settings,
        user.id,
        origin,
        organization_id=joined,
        replacing=replacing,
        how="single sign-on",
    )


async def _user(db: Database, email: str) -> Row | None:
    try:
        normal = normal_email(email)
    except Problem:
        return None
    return await db.fetch_one(
        "SELECT id, password_hash FROM users WHERE email = :email", email=normal
    )


async def _open(tx: Transaction, settings: Settings, proven: _Proven) -> str:
    # Or a session would outlive the change of the password that it was opened with.
    still = await tx.execute(
        "UPDATE users SET password_hash = :kept WHERE id = :id AND password_hash = :seen",
        id=proven.user_id,
        seen=proven.seen,
        kept=proven.kept,
    )
    if not still:
        raise Problem("sign_in_failed", "The password was changed meanwhile; sign in again.")
    token = await open_session(
        tx,
        settings,
        proven.user_id,
        proven.origin,
        replacing=proven.replacing,
        how="password",
    )
    await forgive(tx, proven.attempt)
    return token


def _failed(user: Row | None, origin: Origin, reason: str) -> Problem:
    # Not what was typed as an e-mail address: now and then that is a password.
    who = "nobody known" if user is None else user["id"]
    _log.warning("sign-in from %r as %s failed: %s", origin.address, who, reason)
    return Problem("sign_in_failed", "The e-mail address or the password is wrong.")
