"""How often a password may be guessed: per e-mail address, and per address of the network.

Counts before anybody looks at a password, so that guesses made at once cannot outrun the count.
Also deletes what is left of sign-ins that are over.
"""

import hashlib
import ipaddress
import math
from typing import NamedTuple

from agentjobs.clock import DAY_MS, SECOND_MS, now_ms
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction

WINDOW_MS = 15 * 60 * SECOND_MS
MOST_PER_EMAIL = 10
MOST_PER_ADDRESS = 30

_HOUR_MS = 3_600 * SECOND_MS
_BATCH = 500


class Attempt(NamedTuple):
    """Somebody says to be `email`; `address` is None when they are signed in already."""

    email: str
    address: str | None

    @property
    def email_subject(self) -> str:
        text = self.email.strip().lower().encode("utf-8", "replace")
        return f"email:{hashlib.sha256(text).hexdigest()}"

    @property
    def address_subject(self) -> str | None:
        return None if self.address is None else f"address:{_network_of(self.address)}"


async def count_attempt(db: Database, attempt: Attempt) -> None:
    """Raise Problem when there were too many; else it counts as failed until it is forgiven."""
    now = now_ms()
    until = await db.transact(_count, attempt, now)
    if until is None:
        return
    seconds = max(1, math.ceil((until - now) / SECOND_MS))
    raise Problem(
        "too_many_attempts",
        "There were too many attempts to sign in. Wait "
        f"{math.ceil(seconds / 60)} minutes, then try again.",
        retry_after_seconds=seconds,
    )


async def forgive(tx: Transaction, attempt: Attempt) -> None:
    """It was no failure. What others failed at from the same network stays counted."""
    # The network first, as when counting: or two transactions could wait for each other.
    if attempt.address_subject is not None:
        await tx.execute(
            "UPDATE sign_in_failures SET failures = failures - 1"
            " WHERE subject = :subject AND failures > 0",
            subject=attempt.address_subject,
        )
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE subject = :subject", subject=attempt.email_subject
    )


async def prune_sign_ins(db: Database, now: int, *, idle_hours: float, session_days: float) -> int:
    """Delete sessions, links and counts that are over; a batch of each. How many those were."""
    bounds = {
        "now": now,
        "idle": now - int(idle_hours * _HOUR_MS),
        "oldest": now - int(session_days * DAY_MS),
        "window": now - WINDOW_MS,
    }
    pruned = 0
    for table, key, is_over in _OVER:
        # Found by a reader: nobody who writes waits for the scan.
        needed = {name: bounds[name] for name in bounds if f":{name}" in is_over}
        rows = await db.fetch_all(
            f"SELECT {key} AS key FROM {table} WHERE {is_over} LIMIT {_BATCH}", **needed
        )
        if rows:
            statement = f"DELETE FROM {table} WHERE {key} = :key AND ({is_over})"
            await db.transact(_delete, statement, [{"key": row["key"], **needed} for row in rows])
        pruned += len(rows)
    return pruned


_OVER = (
    ("sessions", "hash", "expires_at <= :now OR seen_at <= :idle OR created_at <= :oldest"),
    ("sign_in_links", "hash", "expires_at <= :now"),
    ("sign_in_failures", "subject", "since <= :window"),
)


async def _count(tx: Transaction, attempt: Attempt, now: int) -> int | None:
    """The end of the time in which no more is allowed; None: this one is."""
    if attempt.address_subject is not None:
        until = await _count_one(tx, attempt.address_subject, MOST_PER_ADDRESS, now)
        if until is not None:
            return until
    return await _count_one(tx, attempt.email_subject, MOST_PER_EMAIL, now)


async def _count_one(tx: Transaction, subject: str, most: int, now: int) -> int | None:
    # A time far ahead was written under a wrong clock, and must lock nobody out.
    row = await tx.fetch_one(
        "INSERT INTO sign_in_failures AS f (subject, failures, since) VALUES (:subject, 1, :now)"
        " ON CONFLICT (subject) DO UPDATE SET"
        " failures = CASE WHEN ABS(f.since - :now) >= :window THEN 1 ELSE f.failures + 1 END,"
        " since = CASE WHEN ABS(f.since - :now) >= :window THEN :now ELSE f.since END"
        " RETURNING failures, since",
        subject=subject,
        now=now,
        window=WINDOW_MS,
    )
    assert row is not None
    return row["since"] + WINDOW_MS if row["failures"] > most else None


async def _delete(tx: Transaction, statement: str, rows: list[dict[str, object]]) -> None:
    await tx.execute_many(statement, rows)


def _network_of(address: str) -> str:
    """Whoever has one address of IPv6 has the 2^64 around it, too."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return hashlib.sha256(address.encode("utf-8", "replace")).hexdigest()
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
