"""Connections to untrusted servers: reused while idle, otherwise dialled through the guard.

Dialling covers the name, the address guard, TCP, an HTTP proxy and TLS. It has no timeout:
callers cancel it.
"""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

from aiohappyeyeballs import start_connection
from yarl import URL

from agentjobs.outbound.guard.addresses import AllowList, filter_permitted, join_host_port
from agentjobs.outbound.guard.dial import NEXT_ADDRESS_SECONDS, address_info
from agentjobs.outbound.guard.resolver import HostResolver
from agentjobs.outbound.guard.sessions import guarded_socket_factory
from agentjobs.outbound.untrusted_http.connection import UntrustedConnection

# Servers commonly close idle connections after 5 seconds; a request sent at that moment is lost.
KEEPALIVE_SECONDS = 4
MAX_IDLE = 512
# Bounds the unread data that the kernel holds: no more than this of a response matters.
RECEIVE_BUFFER_BYTES = 16 * 1024

_SWEEP_SECONDS = 1
# The operator chose the proxy, so its address is not restricted.
_ANY_ADDRESS = AllowList.parse(["0.0.0.0/0", "::/0"])


class NotResolved(OSError):
    """The host name has no address; the message says why."""


class ProxyRefused(OSError):
    """The proxy opened no tunnel; the message contains its response."""


class Origin(NamedTuple):
    """Where a connection goes. Without `tls` it is not encrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: URL | None = None


Stage = Literal["name", "dial", "proxy", "tls", "exchange"]


class Progress:
    """The latest address dialled, and the stage that was reached."""

    __slots__ = ("address", "stage")

    def __init__(self) -> None:
        self.address: str | None = None
        self.stage: Stage = "name"


class ConnectionPool:
    """Idle connections by key. The most recently used is reused first, the oldest closed first."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, deque[UntrustedConnection]] = {}
        # All of them with their key and the time they became idle, oldest first.
        self._idle_since: OrderedDict[UntrustedConnection, tuple[Hashable, float]] = OrderedDict()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def acquire(self, key: Hashable) -> UntrustedConnection | None:
        """A connection that can carry a request now, if there is one."""
        while connections := self._by_key.get(key):
            connection = connections.pop()
            if not connections:
                del self._by_key[key]
            _, since = self._idle_since.pop(connection)
            is_fresh = since > self._expiry_limit()
            if is_fresh and connection.is_reusable and connection.has_no_input():
                return connection
            connection.abort()
        return None

    def release(self, key: Hashable, connection: UntrustedConnection) -> None:
        """Closes the connection if it cannot be reused."""
        if self._is_closed or not connection.is_reusable:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._by_key.setdefault(key, deque()).append(connection)
        self._idle_since[connection] = (key, loop.time())
        if len(self._idle_since) > MAX_IDLE:
            self._close_oldest()
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(_SWEEP_SECONDS, self._sweep)

    async def close(self) -> None:
        """Connections that are released later are closed as well."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        connections = list(self._idle_since)
        while self._idle_since:
            self._close_oldest()
        for connection in connections:
            await connection.wait_closed()

    def _expiry_limit(self) -> float:
        return asyncio.get_running_loop().time() - KEEPALIVE_SECONDS

    def _sweep(self) -> None:
        limit = self._expiry_limit()
        while self._idle_since and next(iter(self._idle_since.values()))[1] <= limit:
            self._close_oldest()
        self._sweep_timer = (
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
            if self._idle_since
            else None
        )

    def _close_oldest(self) -> None:
        connection, (key, _) = self._idle_since.popitem(last=False)
        # The oldest of all is also the oldest of its key.
        connections = self._by_key[key]
        connections.popleft()
        if not connections:
            del self._by_key[key]
        connection.abort()


async def connect(
    origin: Origin, allowed: AllowList, resolver: HostResolver, progress: Progress
) -> UntrustedConnection:
    """Raises BlockedAddress, NotResolved, ProxyRefused, or what sockets and TLS raise."""
    if origin.proxy is None:
        sock = await _dial(origin.host, origin.port, allowed, resolver, progress)
        return await _open_connection(sock, origin, progress)
    proxy = origin.proxy
    sock = await _dial(proxy.raw_host or "", proxy.port or 80, _ANY_ADDRESS, resolver, progress)
    return await _connect_through_proxy(sock, proxy, origin, progress)


async def _dial(
    host: str, port: int, allowed: AllowList, resolver: HostResolver, progress: Progress
) -> socket.socket:
    def on_dial(sock: socket.socket, address: str, port: int) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        progress.address = join_host_port(address, port)
        progress.stage = "dial"

    addresses = filter_permitted(host, await _resolve(host, resolver), allowed)
    sock = await start_connection(
        [address_info(address, port) for address in addresses],
        happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
        socket_factory=guarded_socket_factory(allowed, on_dial),
    )
    progress.address = _peer_address(sock) or progress.address
    return sock


async def _resolve(host: str, resolver: HostResolver) -> Sequence[str]:
    try:
        addresses = await resolver.resolve(host)
    except UnicodeError:
        raise NotResolved("the name is not valid") from None
    except OSError as error:
        raise NotResolved(error.strerror or str(error)) from None
    if not addresses:
        raise NotResolved("the name has no address")
    return addresses


def _peer_address(sock: socket.socket) -> str | None:
    try:
        address, port = sock.getpeername()[:2]
    except OSError:
        # The peer has already closed the connection.
        return None
    return join_host_port(address, port)


async def _open_connection(
    sock: socket.socket, origin: Origin, progress: Progress
) -> UntrustedConnection:
    connection = UntrustedConnection(sock, progress.address or "")
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


async def _connect_through_proxy(
    sock: socket.socket, proxy: URL, origin: Origin, progress: Progress
) -> UntrustedConnection:
    progress.stage = "proxy"
    proxy_origin = Origin(proxy.raw_host or "", proxy.port or 80, None)
    outer = await _open_connection(sock, proxy_origin, progress)
    try:
        await _request_tunnel(outer, proxy, origin)
        progress.stage = "tls"
        return await _start_tls(outer, sock, origin)
    except BaseException:
        outer.abort()
        raise


async def _request_tunnel(outer: UntrustedConnection, proxy: URL, origin: Origin) -> None:
    # No deadline here: the caller's timeout for connecting applies.
    await outer.send_request(_connect_request(proxy, origin), None, 0, head_only=True)
    response = outer.response
    if response is None or not 200 <= response.status < 300:
        reason = response.reason.decode("utf-8", "replace") if response else ""
        status = f"{response.status} {reason}" if response else ""
        raise ProxyRefused(f"the proxy responded to CONNECT with {status}".rstrip())


def _connect_request(proxy: URL, origin: Origin) -> bytes:
    target = join_host_port(origin.host, origin.port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        credentials = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {b64encode(credentials).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _start_tls(
    outer: UntrustedConnection, sock: socket.socket, origin: Origin
) -> UntrustedConnection:
    assert origin.tls is not None
    inner = UntrustedConnection(sock, outer.address)
    transport = await asyncio.get_running_loop().start_tls(
        outer.transport(), inner, origin.tls, server_hostname=_tls_name(origin)
    )
    if transport is None:
        raise ConnectionResetError("the connection was closed")
    inner.connection_made(transport)
    return inner


def _tls_name(origin: Origin) -> str | None:
    return origin.host.removesuffix(".") if origin.tls is not None else None
