"""aiohttp sessions that only dial permitted addresses, and the trusted certificates.

Timeouts, redirects and bodies are up to the callers.
"""

import asyncio
import errno
import os
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from agentjobs_runtime.outbound.guard.addresses import AllowList, filter_permitted
from agentjobs_runtime.outbound.guard.resolver import HostResolver, Lookup, system_lookup

# The operator chose these hosts; there are few of them.
MAX_LOOKUPS = 32
LOOKUP_SECONDS = 10
# The defaults without DHE: the server chooses its group, and one of 8,192 bits blocks the event
# loop for a second per handshake. TLS 1.3 suites are unaffected.
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def new_session(
    allowed: AllowList, ca_file: str = "", *, lookup: Lookup = system_lookup
) -> aiohttp.ClientSession:
    """Ignores proxies of the environment, keeps no cookies and does not decompress."""
    return aiohttp.ClientSession(
        connector=guarded_connector(allowed, ca_file=ca_file, lookup=lookup),
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def guarded_connector(
    allowed: AllowList, *, ca_file: str = "", lookup: Lookup = system_lookup
) -> aiohttp.TCPConnector:
    """A refusal is a ClientConnectorError with a BlockedAddress in `os_error`."""
    resolver = HostResolver(lookup, MAX_LOOKUPS, threading.Semaphore(MAX_LOOKUPS))
    return aiohttp.TCPConnector(
        ssl=load_tls_context(ca_file),
        resolver=GuardedResolver(allowed, resolver),
        socket_factory=guarded_socket_factory(allowed),
        # Shared by all jobs of a worker: each limits itself, and none may make others wait.
        limit=0,
    )


def guarded_socket_factory(
    allowed: AllowList, on_dial: Callable[[socket.socket, str, int], None] | None = None
) -> aiohttp.SocketFactoryType:
    """`on_dial` receives the socket, address and port before they are dialled."""

    def guarded_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        # The resolver is not enough: IP literals bypass it.
        family, kind, protocol, _, sockaddr = info
        address, port = str(sockaddr[0]), int(sockaddr[1])
        filter_permitted(address, [address], allowed)
        sock = socket.socket(family, kind, protocol)
        if on_dial is not None:
            on_dial(sock, address, port)
        return sock

    return guarded_socket


def load_tls_context(ca_file: str) -> ssl.SSLContext:
    """Trusts the machine's certificates and the operator's; raises ValueError if unreadable."""
    return _load_tls_context(
        ca_file, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    )


@lru_cache(maxsize=4)
def _load_tls_context(ca_file: str, *_environment: str | None) -> ssl.SSLContext:
    """Cached: several parts of a service ask for the same context at startup."""
    context = ssl.create_default_context()
    context.set_ciphers(_CIPHERS)
    if ca_file:
        try:
            # A pipe or a device may never end.
            if not stat.S_ISREG(Path(ca_file).stat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise ValueError(
                f"AGENTJOBS_CA_FILE: {ca_file} {_describe_fault(error)}; name a file with"
                " certificates in PEM format that this user can read"
            ) from None
    return context


def _describe_fault(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return f"cannot be read ({error.strerror})"
    if error.reason == "NO_CERTIFICATE_OR_CRL_FOUND":
        return "contains no certificate in PEM format"
    return "contains a damaged certificate"


class GuardedResolver(AbstractResolver):
    """Omits blocked addresses, so that a host with one permitted address works."""

    def __init__(self, allowed: AllowList, resolver: HostResolver) -> None:
        self._allowed = allowed
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = filter_permitted(host, await self._addresses(host), self._allowed)
        results = [_result(host, address, port) for address in addresses]
        usable = [result for result in results if family in (socket.AF_UNSPEC, result["family"])]
        if not usable:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        return usable

    async def close(self) -> None:
        """Holds no resources."""

    async def _addresses(self, host: str) -> Sequence[str]:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await self._resolver.resolve(host)
        except TimeoutError:
            # A TimeoutError could be mistaken for that of a request already sent.
            reason = f"the name was not resolved within {LOOKUP_SECONDS} seconds"
            raise socket.gaierror(socket.EAI_AGAIN, reason) from None
        except UnicodeError:
            raise socket.gaierror(socket.EAI_NONAME, "the name is not valid") from None


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
