"""How often a password may be guessed: of one address from one network, from anywhere, and of any.

Counts before anybody looks at a password, so that guesses made at once cannot outrun the count.
"""

import hashlib
import ipaddress
import math
from typing import NamedTuple
from urllib.parse import urlsplit

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.problems import Problem
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Transaction

WINDOW_MS = 15 * 60 * SECOND_MS
# Few for whoever guesses in one place; so many over all places that no single one of them can keep
# the owner of the address out, nor one visitor all the others who come through the same proxy.
MOST_PER_PAIR = 10
MOST_PER_EMAIL = 100
MOST_PER_ADDRESS = 100


class Attempt(NamedTuple):
    """Somebody says to be `email`; `address` is None when they are signed in already."""

    email: str
    address: str | None

    @property
    def email_subject(self) -> str:
        return f"email:{_hash(self.email)}"

    @property
    def pair_subject(self) -> str:
        return pairs_of(self.email) + ("" if self.address is None else _network_of(self.address))

    @property
    def address_subject(self) -> str | None:
        return None if self.address is None else f"address:{_network_of(self.address)}"


def pairs_of(email: str) -> str:
    """How each subject begins that stands for this address and some network."""
    return f"pair:{_hash(email)}:"


def sign_in_warnings(settings: Settings) -> list[str]:
    """What an operator should know of who counts as whom, before the first visitor comes."""
    if urlsplit(settings.effective_public_url).scheme != "https" or settings.trusted_proxies:
        return []
    warning = (
        "The public address is https, so a proxy stands before the service, and all visitors seem "
        "to come from it: guesses of one count for all of them, and the audit log shows the "
        "proxy's address. Set AGENTJOBS_TRUSTED_PROXIES to the addresses of the proxy."
    )
    return [warning]


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
    """It was no failure. What others failed at, as the same or in the same place, stays counted."""
    # In the order of counting: or two transactions could wait for each other.
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE subject = :subject", subject=attempt.pair_subject
    )
    for subject in (attempt.address_subject, attempt.email_subject):
        if subject is not None:
            await tx.execute(
                "UPDATE sign_in_failures SET failures = failures - 1"
                " WHERE subject = :subject AND failures > 0",
                subject=subject,
            )


async def forget_failures(tx: Transaction, email: str) -> None:
    """Of whoever has a new password: what was guessed about the old one must not keep them out."""
    pairs = pairs_of(email)
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE SUBSTR(subject, 1, :length) = :pairs",
        length=len(pairs),
        pairs=pairs,
    )
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE subject = :subject",
        subject=Attempt(email, None).email_subject,
    )


async def _count(tx: Transaction, attempt: Attempt, now: int) -> int | None:
    """The end of the time in which no more is allowed; None: this one is."""
    # The narrowest first: who is stopped there spends nothing that others need.
    for subject, most in (
        (attempt.pair_subject, MOST_PER_PAIR),
        (attempt.address_subject, MOST_PER_ADDRESS),
        (attempt.email_subject, MOST_PER_EMAIL),
    ):
        until = None if subject is None else await _count_one(tx, subject, most, now)
        if until is not None:
            return until
    return None


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


def _hash(email: str) -> str:
    return hashlib.sha256(email.strip().lower().encode("utf-8", "replace")).hexdigest()


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
