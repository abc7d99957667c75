"""HTTP sessions of the service that dial only addresses they may, however a name was written.

Owns the guard and the trusted certificates; time limits, redirects and bodies are the callers'.
"""

import socket
import ssl

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from agentjobs.outbound.addresses import Allowed, permitted_addresses


def new_session(allowed: Allowed, ca_file: str = "") -> aiohttp.ClientSession:
    """No proxy of the environment, no cookies kept, no compression undone."""
    return aiohttp.ClientSession(
        connector=guarded_connector(allowed, ca_file=ca_file),
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def guarded_connector(allowed: Allowed, *, ca_file: str = "") -> aiohttp.TCPConnector:
    """A refusal arrives as ClientConnectorError with a BlockedAddress in `os_error`."""

    def guarded_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        # Here and not only at the resolver: an IP literal never passes that.
        family, kind, protocol, _, address = info
        permitted_addresses(str(address[0]), [str(address[0])], allowed)
        return socket.socket(family, kind, protocol)

    return aiohttp.TCPConnector(
        ssl=trusted_certificates(ca_file),
        resolver=_GuardedResolver(allowed),
        socket_factory=guarded_socket,
        # All jobs of a worker share it: each bounds itself, and none may keep the others waiting.
        limit=0,
    )


def trusted_certificates(ca_file: str) -> ssl.SSLContext:
    """The machine's, and the operator's own; raises ValueError if those cannot be read."""
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            reason = f"AGENTJOBS_CA_FILE: {ca_file} cannot be read as PEM certificates: {error}"
            raise ValueError(reason) from None
    return context


class _GuardedResolver(AbstractResolver):
    """Leaves out what would be refused, so that a name with one good address can be reached."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._system = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._system.resolve(host, port, family)
        permitted = permitted_addresses(host, [one["host"] for one in found], self._allowed)
        return [one for one in found if one["host"] in permitted]

    async def close(self) -> None:
        await self._system.close()
