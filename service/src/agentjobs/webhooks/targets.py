"""Validates the URL of an endpoint when it is entered, for immediate feedback.

This is not the guard: every attempt checks the address that it dials.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Iterable, Sequence
from typing import Final

from yarl import URL

from agentjobs_runtime.outbound.guard.addresses import (
    AllowList,
    BlockedAddress,
    filter_permitted,
    refusal_reason,
)
from agentjobs_runtime.outbound.guard.hosts import is_literal_address
from agentjobs_runtime.outbound.guard.resolver import HostResolver, Lookup, system_lookup
from agentjobs_runtime.problems import Problem

MAX_URL_LENGTH = 2_048
LOOKUP_SECONDS = 5

# Lookups of slow names hold a thread for a while; a few must not block other requests.
_THREADS: Final = threading.Semaphore(32)
_URL = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'(+)*,;=-]|%[0-9A-Fa-f]{2})*")
_INVALID_CHARACTER = (
    "contains an invalid character: write spaces and non-ASCII characters as %XX, and "
    "the host in its xn-- form"
)


class BlockedTarget(Problem):
    """The URL's address is not allowed. `reason` has no advice for the operator."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__("blocked_address", message)
        self.reason = reason


async def check_target(
    url: str, allowed: AllowList, *, lookup: Lookup = system_lookup, has_proxy: bool = False
) -> str | None:
    """Returns a warning, if any. Raises Problem if the URL may not be used."""
    scheme, host, is_name = _parse(url)
    if scheme == "https" and is_name and has_proxy:
        # The proxy resolves names, and may know names that this machine does not.
        return None
    try:
        addresses = await _resolve(host, lookup)
    except (OSError, UnicodeError) as error:
        reason = f"{host} does not resolve ({_error_text(error)})"
        if scheme == "http":
            raise _https_required(reason, allowed) from None
        return f"{reason}; deliveries will fail until it does."
    if scheme == "http":
        _check_listed(host, addresses, allowed)
    else:
        _check_permitted(host, addresses, allowed)
    return None


def _check_permitted(host: str, addresses: Sequence[str], allowed: AllowList) -> None:
    try:
        filter_permitted(host, addresses, allowed)
    except BlockedAddress as blocked:
        message = f"{blocked}. Add it there and restart the service."
        raise BlockedTarget(message, blocked.reason) from None


def _check_listed(host: str, addresses: Iterable[str], allowed: AllowList) -> None:
    for address in addresses:
        if refusal_reason(address, allowed.without_public()):
            reason = address if address == host else f"{host}: {address}"
            raise _https_required(f"{reason} is not one of them", allowed)


def _https_required(reason: str, allowed: AllowList) -> Problem:
    limit = f"http is limited to the addresses in {allowed.setting}, and {reason}"
    message = (
        f"{limit}. Use https, or add the address there and restart the service. (`agentjobs up` "
        "allows loopback by itself while that setting is empty, it listens on loopback, uses "
        "SQLite, has no public address, and nobody but the operator can sign in.)"
    )
    return BlockedTarget(message, limit)


async def _resolve(host: str, lookup: Lookup) -> Sequence[str]:
    resolver = HostResolver(lookup, 1, _THREADS)
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await resolver.resolve(host)
    except TimeoutError:
        reason = f"no response within {LOOKUP_SECONDS} seconds"
        raise socket.gaierror(socket.EAI_AGAIN, reason) from None


def _error_text(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _parse(url: str) -> tuple[str, str, bool]:
    """Scheme, host, and whether the host is a name. Attempts use the same parser."""
    _raise_if(
        (len(url) > MAX_URL_LENGTH, f"is longer than {MAX_URL_LENGTH} characters"),
        (not _URL.fullmatch(url), _INVALID_CHARACTER),
        ("#" in url, "has a fragment, which is never sent: remove the # and what follows"),
    )
    try:
        parsed = URL(url)
    except ValueError as error:
        raise _invalid(f"is invalid: {error}") from None
    host = parsed.raw_host or ""
    _raise_if(
        (parsed.scheme not in {"https", "http"}, "must begin with https://"),
        (not host, "has no host: write it like https://hooks.example.com/agentjobs"),
        (
            "@" in parsed.raw_authority,
            "contains a user name or password: remove it, the signature authenticates the sender",
        ),
        (parsed.port == 0, "must have a port between 1 and 65535, or none"),
        (host not in url.lower(), f"has an IP address in an unusual form: write {host}"),
    )
    try:
        return parsed.scheme, host, not is_literal_address(host)
    except ValueError as error:
        raise _invalid(f"has no valid host: {error}") from None


def _raise_if(*faults: tuple[bool, str]) -> None:
    for is_fault, message in faults:
        if is_fault:
            raise _invalid(message)


def _invalid(message: str) -> Problem:
    return Problem("invalid_url", f"The URL {message}.")
