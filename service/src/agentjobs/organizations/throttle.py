"""Limits failed sign-ins per e-mail address and network, per e-mail address, and per network.

Attempts are counted before the password is verified, so that parallel guesses cannot bypass the
limits.
"""

import hashlib
import ipaddress
import math
from typing import NamedTuple
from urllib.parse import urlsplit

from agentjobs.store.database import Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

WINDOW_MS = 15 * 60 * SECOND_MS
# Low for one network guessing one user's password. High in total, so that no single network can
# lock a user out, and one visitor cannot lock out others behind the same proxy.
MAX_PER_PAIR = 10
MAX_PER_EMAIL = 100
MAX_PER_ADDRESS = 100


class Attempt(NamedTuple):
    """A sign-in as `email`; `address` is None for a user who is already signed in."""

    email: str
    address: str | None

    @property
    def email_subject(self) -> str:
        return f"email:{_hash(self.email)}"

    @property
    def pair_subject(self) -> str:
        return pair_prefix(self.email) + ("" if self.address is None else _network(self.address))

    @property
    def address_subject(self) -> str | None:
        return None if self.address is None else f"address:{_network(self.address)}"


def pair_prefix(email: str) -> str:
    """The common prefix of this e-mail address's subjects for all networks."""
    return f"pair:{_hash(email)}:"


def sign_in_warnings(settings: Settings) -> list[str]:
    """A warning for the operator if all visitors seem to have the proxy's address."""
    if urlsplit(settings.effective_public_url).scheme != "https" or settings.trusted_proxies:
        return []
    warning = (
        "The public URL is https, so a proxy is in front of the service, but "
        "AGENTJOBS_TRUSTED_PROXIES is not set: all visitors share the proxy's address for the "
        "sign-in limits and in the audit log. Set it to the addresses of the proxy."
    )
    return [warning]


@in_transaction
async def count_attempt(tx: Transaction, attempt: Attempt) -> None:
    """Count the attempt as failed until `uncount_attempt`.

    Raises Problem above a limit, which undoes all counts of the attempt: refused attempts must
    neither count against the shared limits nor fill the store.
    """
    now = await tx.clock_ms()
    for subject, limit in (
        (attempt.pair_subject, MAX_PER_PAIR),
        (attempt.address_subject, MAX_PER_ADDRESS),
        (attempt.email_subject, MAX_PER_EMAIL),
    ):
        until = None if subject is None else await _count_subject(tx, subject, limit, now)
        if until is not None:
            raise _too_many_attempts(until - now)


async def uncount_attempt(tx: Transaction, attempt: Attempt) -> None:
    """The attempt succeeded. Other failures of the same address or network stay counted."""
    # In the same order as `count_attempt`; otherwise two transactions could deadlock.
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
    """A user with a new password must not be locked out by guesses of the old one."""
    prefix = pair_prefix(email)
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE SUBSTR(subject, 1, :length) = :prefix",
        length=len(prefix),
        prefix=prefix,
    )
    await tx.execute(
        "DELETE FROM sign_in_failures WHERE subject = :subject",
        subject=Attempt(email, None).email_subject,
    )


async def _count_subject(tx: Transaction, subject: str, limit: int, now: int) -> int | None:
    # A time in the future was written with a wrong clock and must not lock anyone out.
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
    return row["since"] + WINDOW_MS if row["failures"] > limit else None


def _too_many_attempts(wait_ms: int) -> Problem:
    seconds = max(1, math.ceil(wait_ms / SECOND_MS))
    return Problem(
        "too_many_attempts",
        f"Too many sign-in attempts. Try again in {math.ceil(seconds / 60)} minutes.",
        retry_after_seconds=seconds,
    )


def _hash(email: str) -> str:
    return hashlib.sha256(email.strip().lower().encode("utf-8", "replace")).hexdigest()


def _network(address: str) -> str:
    """An IPv6 client usually controls a whole /64 network."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return hashlib.sha256(address.encode("utf-8", "replace")).hexdigest()
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
