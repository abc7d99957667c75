"""Sign-in links: a token signs one user in, once, for a few minutes. Only its hash is stored."""

from agentjobs.organizations.sessions import Origin, open_session
from agentjobs.organizations.tokens import is_well_formed, new_token, token_hash
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

LINK_PREFIX = "ajl_"

_MINUTE_MS = 60 * SECOND_MS


@in_transaction
async def create_link(tx: Transaction, user_id: str, *, minutes: int = 10) -> str:
    """Returns the token, which must reach only this user."""
    member = await tx.fetch_one(
        "SELECT 1 FROM memberships WHERE user_id = :user_id LIMIT 1", user_id=user_id
    )
    if member is None:
        raise Problem(
            "no_membership", "This user is not a member of any organization; add them to one first."
        )
    token = new_token(LINK_PREFIX)
    now = await tx.clock_ms()
    await tx.execute(
        "INSERT INTO sign_in_links (hash, user_id, created_at, expires_at)"
        " VALUES (:hash, :user_id, :now, :expires_at)",
        hash=token_hash(token),
        user_id=user_id,
        now=now,
        expires_at=now + minutes * _MINUTE_MS,
    )
    return token


async def use_link(
    db: Database, settings: Settings, token: str, origin: Origin, *, replacing: str | None = None
) -> str:
    """Returns the token of the new session. The link becomes invalid."""
    # Anyone can send any text: refuse malformed tokens without a write transaction.
    if not is_well_formed(token, LINK_PREFIX):
        raise _not_valid()
    return await db.transact(_use, settings, token_hash(token), origin, replacing)


async def revoke_link(db: Database, token: str) -> None:
    """Also a password reset link, which is stored alike."""
    statement = "DELETE FROM sign_in_links WHERE hash = :hash"
    await db.transact(execute, statement, hash=token_hash(token))


async def _use(
    tx: Transaction, settings: Settings, hashed: bytes, origin: Origin, replacing: str | None
) -> str:
    # Only one of two concurrent requests deletes the row.
    row = await tx.fetch_one(
        "DELETE FROM sign_in_links WHERE hash = :hash AND purpose = 'sign_in'"
        " AND expires_at > :now RETURNING user_id",
        hash=hashed,
        now=await tx.clock_ms(),
    )
    if row is None:
        raise _not_valid()
    return await open_session(tx, settings, row["user_id"], origin, replacing=replacing, how="link")


def _not_valid() -> Problem:
    return Problem(
        "link_not_valid",
        "This sign-in link was already used or has expired after 10 minutes. Get a new one with "
        "`agentjobs users sign-in-link EMAIL`, or sign in with your password.",
    )
