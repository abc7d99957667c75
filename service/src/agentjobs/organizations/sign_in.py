"""Signs users in with a password or an identity from a provider, and starts their session.

Every failure has the same message, so that nobody can find out who has an account.
"""

import logging

from agentjobs.organizations.identities import Identity, resolve_identity
from agentjobs.organizations.invitations import organization_joined_by
from agentjobs.organizations.passwords import hash_password, needs_rehash, verify_password
from agentjobs.organizations.sessions import Origin, open_session, start_session
from agentjobs.organizations.throttle import Attempt, count_attempt, uncount_attempt
from agentjobs.organizations.users import normalize_email
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)


async def sign_in_with_password(
    db: Database,
    settings: Settings,
    email: str,
    password: str,
    origin: Origin,
    *,
    replacing: str | None = None,
) -> str:
    """Returns the token of the new session."""
    attempt = Attempt(email, origin.address)
    await count_attempt(db, attempt)
    user = await _user(db, email)
    hashed = None if user is None else user["password_hash"]
    is_right = await verify_password(hashed, password)
    if user is None or hashed is None or not is_right:
        raise _sign_in_problem(user, origin, "wrong password" if hashed else "no password")
    new_hash = await hash_password(password) if needs_rehash(hashed) else hashed
    try:
        return await db.transact(
            _open, settings, user["id"], (hashed, new_hash), attempt, origin, replacing
        )
    except Problem as problem:
        raise _sign_in_problem(user, origin, problem.code) from None


async def sign_in_with_identity(
    db: Database,
    settings: Settings,
    identity: Identity,
    origin: Origin,
    *,
    invitation: str | None = None,
    replacing: str | None = None,
) -> str:
    """Returns the token of the new session. `identity` was already verified.

    With an invitation, the session starts in the organization of the invitation.
    """
    user = await resolve_identity(db, settings, identity, invitation=invitation)
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
        normal = normalize_email(email)
    except Problem:
        return None
    return await db.fetch_one(
        "SELECT id, password_hash FROM users WHERE email = :email", email=normal
    )


async def _open(
    tx: Transaction,
    settings: Settings,
    user_id: str,
    hashes: tuple[str, str],
    attempt: Attempt,
    origin: Origin,
    replacing: str | None,
) -> str:
    """The second of `hashes` replaces the one that the password matched, and may be the same."""
    # A changed password ends all sessions, so the old password must not start one after that.
    verified_hash, new_hash = hashes
    updated = await tx.execute(
        "UPDATE users SET password_hash = :new_hash"
        " WHERE id = :id AND password_hash = :verified_hash",
        id=user_id,
        verified_hash=verified_hash,
        new_hash=new_hash,
    )
    if not updated:
        raise Problem("sign_in_failed", "The password was changed at the same moment.")
    token = await open_session(tx, settings, user_id, origin, replacing=replacing, how="password")
    await uncount_attempt(tx, attempt)
    return token


def _sign_in_problem(user: Row | None, origin: Origin, reason: str) -> Problem:
    # The e-mail address is not logged: users sometimes type their password there.
    who = "an unknown user" if user is None else user["id"]
    _log.warning("sign-in from %r as %s failed: %s", origin.address, who, reason)
    return Problem("sign_in_failed", "Incorrect email address or password.")
