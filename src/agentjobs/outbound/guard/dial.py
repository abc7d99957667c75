"""Opens a TCP connection to a host through the address guard, within ten seconds."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

from agentjobs.outbound.guard.addresses import AllowList, filter_permitted

CONNECT_SECONDS = 10
# The next address is also tried if one has not responded by then.
NEXT_ADDRESS_SECONDS = 0.25
# Limit for a response head, which may be longer than a request head.
STREAM_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Unreachable(OSError):
    """No connection; `is_timeout` distinguishes silence from a refused connection."""

    def __init__(self, reason: str, *, is_timeout: bool = False) -> None:
        super().__init__(reason)
        self.is_timeout = is_timeout


async def dial(host: str, port: int, allowed: AllowList, resolve: Resolve) -> Streams:
    """Raises BlockedAddress if no address may be dialled, Unreachable if none responds."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = await _resolve(host, resolve)
            sock = await _connect(filter_permitted(host, addresses, allowed), port)
    except TimeoutError:
        raise Unreachable("connection timed out", is_timeout=True) from None
    try:
        return await asyncio.open_connection(sock=sock, limit=STREAM_BYTES)
    except BaseException:
        sock.close()
        raise


async def _resolve(host: str, resolve: Resolve) -> Sequence[str]:
    try:
        return await resolve(host)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"the name cannot be resolved ({error})") from None


async def _connect(addresses: Sequence[str], port: int) -> socket.socket:
    if not addresses:
        raise Unreachable("the name has no address")
    try:
        return await start_connection(
            [address_info(address, port) for address in addresses],
            happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
        )
    except TimeoutError:
        raise
    except OSError as error:
        raise Unreachable(error.strerror or str(error)) from None


def address_info(address: str, port: int) -> AddrInfoType:
    """What `getaddrinfo` would return for a TCP connection to a literal address."""
    family, rest = (socket.AF_INET6, (0, 0)) if ":" in address else (socket.AF_INET, ())
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, *rest)
