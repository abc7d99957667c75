"""How a server that anybody may have named is reached: its name, the guard, TCP, a proxy, TLS.

Gives a connection. How long all of it may take is the caller's, who cancels it.
"""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Sequence
from typing import Literal, NamedTuple

from aiohappyeyeballs import start_connection
from yarl import URL

from agentjobs.outbound.guard.addresses import Allowed, permitted_addresses, with_port
from agentjobs.outbound.guard.dial import NEXT_ADDRESS_SECONDS, address_info
from agentjobs.outbound.guard.resolver import Lookups
from agentjobs.outbound.guard.sessions import guarded_sockets
from agentjobs.outbound.untrusted_http.connection import StrangerConnection

# What is on the way to us, unread: more of an answer than this is not of interest.
RECEIVE_BYTES = 16 * 1024

# The operator chose the proxy, wherever it is.
_ANYWHERE = Allowed.parse(["0.0.0.0/0", "::/0"])


class NotResolved(OSError):
    """The name has no address; the message says why."""


class ProxyRefused(OSError):
    """The proxy made no tunnel; the message is its answer."""


class Origin(NamedTuple):
    """Whom a connection leads to. `tls` without a value: nothing is encrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: URL | None = None


Stage = Literal["name", "dial", "proxy", "tls", "exchange"]


class Progress:
    """How far it came: the last address dialled, and what was under way."""

    __slots__ = ("address", "stage")

    def __init__(self) -> None:
        self.address: str | None = None
        self.stage: Stage = "name"


async def connect(
    origin: Origin, allowed: Allowed, lookups: Lookups, progress: Progress
) -> StrangerConnection:
    """Raises BlockedAddress, NotResolved, ProxyRefused, or what sockets and TLS raise."""
    if origin.proxy is None:
        sock = await _dialled(origin.host, origin.port, allowed, lookups, progress)
        return await _over(sock, origin, progress)
    proxy = origin.proxy
    sock = await _dialled(proxy.raw_host or "", proxy.port or 80, _ANYWHERE, lookups, progress)
    return await _tunnel(sock, proxy, origin, progress)


async def _dialled(
    host: str, port: int, allowed: Allowed, lookups: Lookups, progress: Progress
) -> socket.socket:
    def on_dial(made: socket.socket, address: str, port: int) -> None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        progress.address = with_port(address, port)
        progress.stage = "dial"

    found = permitted_addresses(host, await _addresses(host, lookups), allowed)
    sock = await start_connection(
        [address_info(address, port) for address in found],
        happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
        socket_factory=guarded_sockets(allowed, on_dial),
    )
    progress.address = _peer(sock) or progress.address
    return sock


async def _addresses(host: str, lookups: Lookups) -> Sequence[str]:
    try:
        found = await lookups.addresses(host)
    except UnicodeError:
        raise NotResolved("no name is written like this") from None
    except OSError as error:
        raise NotResolved(error.strerror or str(error)) from None
    if not found:
        raise NotResolved("it has no address")
    return found


def _peer(sock: socket.socket) -> str | None:
    try:
        address, port = sock.getpeername()[:2]
    except OSError:
        # It is gone already.
        return None
    return with_port(address, port)


async def _over(sock: socket.socket, origin: Origin, progress: Progress) -> StrangerConnection:
    connection = StrangerConnection(sock, progress.address or "")
    if origin.tls is not None:
        progress.stage = "tls"
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            sock=sock,
            ssl=origin.tls,
            server_hostname=_tls_name(origin),
        )
    except BaseException:
        connection.abort()
        sock.close()
        raise
    return connection


async def _tunnel(
    sock: socket.socket, proxy: URL, origin: Origin, progress: Progress
) -> StrangerConnection:
    progress.stage = "proxy"
    outer = await _over(sock, Origin(proxy.raw_host or "", proxy.port or 80, None), progress)
    try:
        await _ask_for_tunnel(outer, proxy, origin)
        progress.stage = "tls"
        return await _tls_inside(outer, sock, origin)
    except BaseException:
        outer.abort()
        raise


async def _ask_for_tunnel(outer: StrangerConnection, proxy: URL, origin: Origin) -> None:
    # Its time is that of connecting, which ends elsewhere.
    await outer.ask(_connect_request(proxy, origin), None, 0, only_head=True)
    answer = outer.answer
    if answer is None or not 200 <= answer.status < 300:
        said = f"{answer.status} {answer.reason.decode('utf-8', 'replace')}" if answer else ""
        raise ProxyRefused(f"the proxy answered CONNECT with {said}".rstrip())


def _connect_request(proxy: URL, origin: Origin) -> bytes:
    there = with_port(origin.host, origin.port)
    lines = [f"CONNECT {there} HTTP/1.1", f"Host: {there}"]
    if proxy.user is not None:
        credentials = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {b64encode(credentials).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _tls_inside(
    outer: StrangerConnection, sock: socket.socket, origin: Origin
) -> StrangerConnection:
    assert origin.tls is not None
    inner = StrangerConnection(sock, outer.address)
    transport = await asyncio.get_running_loop().start_tls(
        outer.transport(), inner, origin.tls, server_hostname=_tls_name(origin)
    )
    if transport is None:
        raise ConnectionResetError("the connection was closed")
    inner.connection_made(transport)
    return inner


def _tls_name(origin: Origin) -> str | None:
    return origin.host.removesuffix(".") if origin.tls is not None else None
