"""Whether an address may become an endpoint, judged when it is given, to say so at once.

No guard: what counts is the address really dialled, which is judged again at every attempt.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from yarl import URL

from agentjobs.outbound.guard.addresses import (
    AllowList,
    BlockedAddress,
    filter_permitted,
    refusal_reason,
)
from agentjobs.outbound.guard.hosts import canonical_address
from agentjobs.outbound.guard.resolver import HostResolver, Lookup, system_lookup
from agentjobs.problems import Problem

MOST_URL_LENGTH = 2_048
LOOKUP_SECONDS = 5

# Threads of names that are slow stay for a while; a few must not keep others from being added.
_THREADS: Final = threading.Semaphore(32)
_URL = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_FOREIGN = (
    "holds a character that no address may hold: write what is not ASCII, spaces and the like "
    "as %XX, and a host in its xn-- form"
)


async def check_target(
    url: str, allowed: AllowList, *, lookup: Lookup = system_lookup, has_proxy: bool = False
) -> str | None:
    """A warning, if there is cause for one. Raises Problem unless it may be sent to."""
    scheme, host, is_name = _parsed(url)
    if scheme == "https" and is_name and has_proxy:
        # The proxy looks names up, and may know others than this machine does.
        return None
    try:
        addresses = await _addresses(host, lookup)
    except (OSError, UnicodeError) as error:
        reason = f"{host} has no address now ({_words(error)})"
        if scheme == "http":
            raise _only_https(reason, allowed) from None
        return f"{reason}; deliveries will fail until it has one."
    if scheme == "http":
        _check_listed(host, addresses, allowed)
    else:
        _check_permitted(host, addresses, allowed)
    return None


def _check_permitted(host: str, addresses: Sequence[str], allowed: AllowList) -> None:
    try:
        filter_permitted(host, addresses, allowed)
    except BlockedAddress as blocked:
        raise Problem(
            "blocked_address", f"{blocked}. Add it there, and start the service again."
        ) from None


def _check_listed(host: str, addresses: Iterable[str], allowed: AllowList) -> None:
    for address in addresses:
        if refusal_reason(address, allowed.without_public()):
            reason = address if address == host else f"{host}: {address}"
            raise _only_https(f"{reason} is not among them", allowed)


def _only_https(reason: str, allowed: AllowList) -> Problem:
    return Problem(
        "blocked_address",
        f"http is for the addresses in {allowed.setting} alone, and {reason}. Use https, or add "
        "the address there and start the service again. (`agentjobs up` adds loopback by itself "
        "while it listens on loopback, uses SQLite and has no public address.)",
    )


async def _addresses(host: str, lookup: Lookup) -> Sequence[str]:
    lookups = HostResolver(lookup, 1, _THREADS)
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await lookups.resolve(host)
    except TimeoutError:
        reason = f"no answer within {LOOKUP_SECONDS} seconds"
        raise socket.gaierror(socket.EAI_AGAIN, reason) from None


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _parsed(url: str) -> tuple[str, str, bool]:
    """Scheme, host, and whether the host is a name."""
    _refuse_if(
        (len(url) > MOST_URL_LENGTH, f"has more than {MOST_URL_LENGTH} characters"),
        (not _URL.fullmatch(url), _FOREIGN),
        ("#" in url, "has a fragment, which is never sent: leave out the # and what follows"),
    )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _invalid(f"cannot be read: {error}") from None
    _refuse_if(
        (parts.scheme not in {"https", "http"}, "must begin with https://"),
        (not host, "names no host: write it like https://hooks.example.com/agentjobs"),
        (
            "@" in parts.netloc,
            "holds a user name or password: leave it out, the signature proves who sends",
        ),
        (port == 0 or parts.netloc.endswith(":"), "must have a port between 1 and 65535, or none"),
    )
    is_bracketed = "[" in parts.netloc
    literal = _literal(host)
    written = f"[{host}]" if is_bracketed else host
    _refuse_if(
        (literal is None and is_bracketed, f"names no host: {host!r} is not an IP address"),
        (
            literal not in {None, written},
            f"spells an IP address in an unusual way: write {literal} instead of {written}",
        ),
    )
    _check_as_dialled(url, host)
    return parts.scheme, host, literal is None


def _check_as_dialled(url: str, host: str) -> None:
    """Attempts are made with another reader of addresses, which may see another host."""
    try:
        dialled = URL(url).raw_host
    except ValueError as error:
        raise _invalid(f"cannot be read: {error}") from None
    _refuse_if((dialled != host, f"names two hosts, {host!r} or {dialled!r}, as it is read"))


def _literal(host: str) -> str | None:
    """An IP address in its plain spelling, as in a URL; None if the host is a name."""
    try:
        plain = canonical_address(host)
    except ValueError as error:
        raise _invalid(f"names no host: {error}") from None
    return f"[{plain}]" if plain is not None and ":" in plain else plain


def _refuse_if(*faults: tuple[bool, str]) -> None:
    for is_so, words in faults:
        if is_so:
            raise _invalid(words)


def _invalid(words: str) -> Problem:
    return Problem("invalid_url", f"The address {words}.")
