"""Opens TCP connections to hosts through the address guard."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

from agentjobs_runtime.outbound.guard.addresses import AllowList, BlockedAddress, filter_permitted
from agentjobs_runtime.outbound.guard.sessions import guarded_socket_factory

CONNECT_SECONDS = 10
# The next address is also tried if one has not responded by then.
NEXT_ADDRESS_SECONDS = 0.25
# Limit for a response head, which may be longer than a request head.
STREAM_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], Awaitable[Sequence[str]]]
OnDial = Callable[[socket.socket, str, int], None]


class NotResolved(OSError):
    """The host name has no address; the message says why."""


class Unreachable(OSError):
    """No connection; `is_timeout` distinguishes silence from a refused connection."""

    def __init__(self, reason: str, *, is_timeout: bool = False) -> None:
        super().__init__(reason)
        self.is_timeout = is_timeout


async def dial(host: str, port: int, allowed: AllowList, resolve: Resolve) -> Streams:
    """Raises BlockedAddress if no address may be dialled, Unreachable if none responds."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            sock = await open_socket(host, port, allowed, resolve)
    except BlockedAddress:
        raise
    except TimeoutError:
        raise Unreachable("connection timed out", is_timeout=True) from None
    except NotResolved as error:
        raise Unreachable(f"the name cannot be resolved ({error})") from None
    except OSError as error:
        raise Unreachable(error.strerror or str(error)) from None
    try:
        return await asyncio.open_connection(sock=sock, limit=STREAM_BYTES)
    except BaseException:
        sock.close()
        raise


async def open_socket(
    host: str, port: int, allowed: AllowList, resolve: Resolve, on_dial: OnDial | None = None
) -> socket.socket:
    """Raises BlockedAddress, NotResolved, or what sockets raise. Has no timeout: callers cancel it.

    `on_dial` receives each socket, address and port before they are dialled.
    """
    addresses = filter_permitted(host, await _resolve(host, resolve), allowed)
    return await start_connection(
        [_address_info(address, port) for address in addresses],
        happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
        socket_factory=guarded_socket_factory(allowed, on_dial),
    )


async def _resolve(host: str, resolve: Resolve) -> Sequence[str]:
    try:
        addresses = await resolve(host)
    except UnicodeError:
        raise NotResolved("the name is not valid") from None
    except OSError as error:
        raise NotResolved(error.strerror or str(error)) from None
    if not addresses:
        raise NotResolved("the name has no address")
    return addresses


def _address_info(address: str, port: int) -> AddrInfoType:
    """What `getaddrinfo` would return for a TCP connection to a literal address."""
    family, rest = (socket.AF_INET6, (0, 0)) if ":" in address else (socket.AF_INET, ())
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, *rest)
