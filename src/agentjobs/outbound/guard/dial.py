"""A TCP connection to a named host, through the address guard and within ten seconds.

Gives streams; what is said over them is the caller's.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from agentjobs.outbound.guard.addresses import Allowed, permitted_addresses

CONNECT_SECONDS = 10
# For one address of several: a dead one must leave time for the next.
ADDRESS_SECONDS = 3
# A head of an answer may be longer than one of a request.
STREAM_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Unreachable(OSError):
    """Nobody answered; `is_late` tells a silence from a refusal."""

    def __init__(self, reason: str, *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.is_late = is_late


async def dial(host: str, port: int, allowed: Allowed, resolve: Resolve) -> Streams:
    """Raises BlockedAddress if no address may be dialled, Unreachable if none answers."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await _resolved(host, resolve)
            sock = await _connected(permitted_addresses(host, found, allowed), port)
    except TimeoutError:
        raise Unreachable("no answer in time", is_late=True) from None
    try:
        return await asyncio.open_connection(sock=sock, limit=STREAM_BYTES)
    except BaseException:
        sock.close()
        raise


async def _resolved(host: str, resolve: Resolve) -> Sequence[str]:
    try:
        return await resolve(host)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"its name cannot be resolved ({error})") from None


async def _connected(addresses: Sequence[str], port: int) -> socket.socket:
    failure: OSError = Unreachable("its name has no address")
    for address in addresses:
        seconds = ADDRESS_SECONDS if len(addresses) > 1 else CONNECT_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await _connected_to(address, port)
        except TimeoutError:
            failure = Unreachable("no answer in time", is_late=True)
        except OSError as error:
            failure = Unreachable(error.strerror or str(error))
    raise failure


async def _connected_to(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock
