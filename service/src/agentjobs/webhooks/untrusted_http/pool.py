"""Connections to untrusted servers: reused while idle, otherwise dialled through the guard.

Dialling covers the name, the address guard, TCP, an HTTP proxy and TLS. It has no timeout:
callers cancel it.
"""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Hashable
from typing import Literal, NamedTuple

from yarl import URL

from agentjobs.webhooks.untrusted_http.connection import ClosedEarly, UntrustedConnection
from agentjobs.webhooks.untrusted_http.response import Response
from agentjobs_runtime.outbound.guard.addresses import AllowList, join_host_port
from agentjobs_runtime.outbound.guard.dial import open_socket
from agentjobs_runtime.outbound.guard.resolver import HostResolver

# Servers commonly close idle connections after 5 seconds; a request sent at that moment is lost.
KEEPALIVE_SECONDS = 4
MAX_IDLE = 512
# Bounds the unread data that the kernel holds: no more than this of a response matters.
RECEIVE_BUFFER_BYTES = 16 * 1024

# The operator chose the proxy, so its address is not restricted.
_ANY_ADDRESS = AllowList.parse(["0.0.0.0/0", "::/0"])


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
    """Idle connections by key. The most recently used is reused first."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, list[UntrustedConnection]] = {}
        # Each closes its connection when it has been idle for too long.
        self._timers: dict[UntrustedConnection, asyncio.TimerHandle] = {}
        self._is_closed = False

    def acquire(self, key: Hashable) -> UntrustedConnection | None:
        """A connection that can carry a request now, if there is one."""
        while connections := self._by_key.get(key):
            connection = connections[-1]
            self._remove(key, connection)
            if connection.is_reusable and connection.has_no_input():
                return connection
            connection.abort()
        return None

    def release(self, key: Hashable, connection: UntrustedConnection) -> None:
        """Closes the connection if it cannot be reused, or if too many are idle."""
        if self._is_closed or len(self._timers) >= MAX_IDLE or not connection.is_reusable:
            connection.abort()
            return
        self._by_key.setdefault(key, []).append(connection)
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(KEEPALIVE_SECONDS, self._expire, key, connection)

    async def close(self) -> None:
        """Connections that are released later are closed as well."""
        self._is_closed = True
        for key, connections in list(self._by_key.items()):
            for connection in list(connections):
                self._expire(key, connection)
        # The event loop closes them in its next iteration.
        await asyncio.sleep(0)

    def _expire(self, key: Hashable, connection: UntrustedConnection) -> None:
        self._remove(key, connection)
        connection.abort()

    def _remove(self, key: Hashable, connection: UntrustedConnection) -> None:
        self._timers.pop(connection).cancel()
        self._by_key[key].remove(connection)
        if not self._by_key[key]:
            del self._by_key[key]


async def connect(
    origin: Origin, allowed: AllowList, resolver: HostResolver, progress: Progress
) -> UntrustedConnection:
    """Raises BlockedAddress, NotResolved, ProxyRefused, or what sockets and TLS raise."""
    proxy = origin.proxy
    if proxy is None:
        sock = await _dial(origin.host, origin.port, allowed, resolver, progress)
    else:
        address = proxy.raw_host or "", proxy.port or 80
        sock = await _dial(*address, _ANY_ADDRESS, resolver, progress)
    connection = UntrustedConnection(sock, progress.address or "")
    try:
        if proxy is not None:
            progress.stage = "proxy"
            await _open_tunnel(sock, proxy, origin)
        if origin.tls is not None:
            progress.stage = "tls"
        await asyncio.get_running_loop().create_connection(
            lambda: connection, sock=sock, ssl=origin.tls, server_hostname=_tls_name(origin)
        )
    except BaseException:
        connection.abort()
        sock.close()
        raise
    return connection


async def _dial(
    host: str, port: int, allowed: AllowList, resolver: HostResolver, progress: Progress
) -> socket.socket:
    def on_dial(sock: socket.socket, address: str, port: int) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        progress.address = join_host_port(address, port)
        progress.stage = "dial"

    sock = await open_socket(host, port, allowed, resolver.resolve, on_dial)
    progress.address = _peer_address(sock) or progress.address
    return sock


def _peer_address(sock: socket.socket) -> str | None:
    try:
        address, port = sock.getpeername()[:2]
    except OSError:
        # The peer has already closed the connection.
        return None
    return join_host_port(address, port)


async def _open_tunnel(sock: socket.socket, proxy: URL, origin: Origin) -> None:
    """No deadline here: the caller's timeout for connecting applies."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, _connect_request(proxy, origin))
    response = Response(head_only=True)
    while not response.is_complete:
        data = await loop.sock_recv(sock, RECEIVE_BUFFER_BYTES)
        if not data:
            raise ClosedEarly
        response.feed(data)
    if not 200 <= response.status < 300:
        status = f"{response.status} {response.reason.decode('utf-8', 'replace')}"
        raise ProxyRefused(f"the proxy responded to CONNECT with {status}".rstrip())


def _connect_request(proxy: URL, origin: Origin) -> bytes:
    target = join_host_port(origin.host, origin.port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        credentials = f"{proxy.user}:{proxy.password or ''}".encode()
        lines.append(f"Proxy-Authorization: Basic {b64encode(credentials).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


def _tls_name(origin: Origin) -> str | None:
    return origin.host.removesuffix(".") if origin.tls is not None else None
