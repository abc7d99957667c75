"""HTTP sessions of the service that dial only addresses they may, however a name was written.

Owns the guard and the trusted certificates; time limits, redirects and bodies are the callers'.
"""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from agentjobs.outbound.guard.addresses import AllowList, filter_permitted
from agentjobs.outbound.guard.resolver import HostResolver, Lookup, system_lookup

# Its names are the operator's, one for each provider of models.
LOOKUPS_AT_ONCE = 32
LOOKUP_SECONDS = 10
# Of the defaults all but DHE, where the server chooses the group: one of 8,192 bits costs a
# second of the event loop at each handshake. The suites of TLS 1.3 are not set here, and stay.
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def new_session(
    allowed: AllowList, ca_file: str = "", *, lookup: Lookup = system_lookup
) -> aiohttp.ClientSession:
    """No proxy of the environment, no cookies kept, no compression undone."""
    return aiohttp.ClientSession(
        connector=guarded_connector(allowed, ca_file=ca_file, lookup=lookup),
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def guarded_connector(
    allowed: AllowList, *, ca_file: str = "", lookup: Lookup = system_lookup
) -> aiohttp.TCPConnector:
    """A refusal arrives as ClientConnectorError with a BlockedAddress in `os_error`."""
    lookups = HostResolver(lookup, LOOKUPS_AT_ONCE, threading.Semaphore(LOOKUPS_AT_ONCE))
    return aiohttp.TCPConnector(
        ssl=load_tls_context(ca_file),
        resolver=GuardedResolver(allowed, lookups),
        socket_factory=guarded_socket_factory(allowed),
        # All jobs of a worker share it: each bounds itself, and none may keep the others waiting.
        limit=0,
    )


def guarded_socket_factory(
    allowed: AllowList, on_dial: Callable[[socket.socket, str, int], None] | None = None
) -> aiohttp.SocketFactoryType:
    """`on_dial` gets the socket, address and port that are about to be dialled."""

    def guarded_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        # Here and not only at the resolver: an IP literal never passes that.
        family, kind, protocol, _, sockaddr = info
        address, port = str(sockaddr[0]), int(sockaddr[1])
        filter_permitted(address, [address], allowed)
        made = socket.socket(family, kind, protocol)
        if on_dial is not None:
            on_dial(made, address, port)
        return made

    return guarded_socket


def load_tls_context(ca_file: str) -> ssl.SSLContext:
    """The machine's, and the operator's own; raises ValueError if those cannot be read."""
    return _trusted(ca_file, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _trusted(ca_file: str, *_machines: str | None) -> ssl.SSLContext:
    """Read once: all who ask at the start of a service are given the same."""
    context = ssl.create_default_context()
    context.set_ciphers(_CIPHERS)
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            reason = f"AGENTJOBS_CA_FILE: {ca_file} cannot be read as PEM certificates: {error}"
            raise ValueError(reason) from None
    return context


class GuardedResolver(AbstractResolver):
    """Leaves out what would be refused, so that a name with one good address can be reached."""

    def __init__(self, allowed: AllowList, lookups: HostResolver) -> None:
        self._allowed = allowed
        self._lookups = lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._addresses(host)
        results = [
            _result(host, address, port) for address in filter_permitted(host, found, self._allowed)
        ]
        usable = [one for one in results if family in (socket.AF_UNSPEC, one["family"])]
        if not usable:
            raise socket.gaierror(socket.EAI_NONAME, "it has no address")
        return usable

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _addresses(self, host: str) -> Sequence[str]:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await self._lookups.resolve(host)
        except TimeoutError:
            # Not as a TimeoutError, which to the caller could be one of a request already sent.
            reason = f"its name was not resolved within {LOOKUP_SECONDS} seconds"
            raise socket.gaierror(socket.EAI_AGAIN, reason) from None
        except UnicodeError:
            raise socket.gaierror(socket.EAI_NONAME, "no name is written like this") from None


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
