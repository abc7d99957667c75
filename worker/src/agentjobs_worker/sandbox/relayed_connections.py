"""Accepts connections on ports of one network and copies their bytes to the same ports of another.

Used by `port_relay`: needs nothing but the standard library. Nothing here waits, so each callback
may run although its event has not happened.
"""

import contextlib
import errno
import functools
import select
import socket
from collections.abc import Callable, Iterator
from typing import NoReturn

# On all ports together. Each takes two descriptors, so the usual limit of 1,024 is enough.
MAX_CONNECTIONS = 256
# Fixed, because the kernel may count the buffers of these sockets as memory of the worker.
BUFFER_BYTES = 128 * 1024
_RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"
_UNFINISHED = (errno.EINPROGRESS, errno.EALREADY)
_CONNECTED = (0, errno.EISCONN)

Callback = Callable[[], None]


class RelayedConnections:
    def __init__(self) -> None:
        self._poll = select.epoll()
        self._callbacks: dict[int, Callback] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._connections: set[_Connection] = set()
        self._is_accepting = True

    def run(self, control: socket.socket, on_control: Callback) -> NoReturn:
        """Calls `on_control` when `control` is readable."""
        self._watch(control, select.EPOLLIN, on_control)
        while True:
            for descriptor, _ in self._poll.poll():
                if (callback := self._callbacks.get(descriptor)) is not None:
                    callback()

    def listen(self, port: int, listener: socket.socket) -> None:
        """Replaces the socket of an earlier sandbox, which has ended, and its connections."""
        if (earlier := self._listeners.get(port)) is not None:
            self._close(earlier)
        for connection in list(self._connections):
            if connection.port == port:
                self._end(connection)
        listener.setblocking(False)
        _fix_buffers(listener)
        self._listeners[port] = listener
        self._set_accepting(self._is_accepting)

    def _set_accepting(self, is_accepting: bool) -> None:
        self._is_accepting = is_accepting
        events = select.EPOLLIN if is_accepting else 0
        for port, listener in self._listeners.items():
            self._watch(listener, events, functools.partial(self._accept, port))

    def _accept(self, port: int) -> None:
        try:
            # First, so that no client is accepted that cannot be served.
            service = _new_socket(socket.AF_INET)
            try:
                client, _ = self._listeners[port].accept()
            except OSError:
                service.close()
                raise
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # There are too many descriptors.
            self._set_accepting(False)
            return
        connection = _Connection(port, client, service)
        self._connections.add(connection)
        if len(self._connections) >= MAX_CONNECTIONS:
            self._set_accepting(False)
        self._advance(connection)

    def _advance(self, connection: "_Connection") -> None:
        try:
            connection.advance()
        except OSError:
            connection.reset()
        if connection.is_finished:
            self._end(connection)
            return
        for sock, events in connection.changed_events():
            self._watch(sock, events, functools.partial(self._advance, connection))

    def _end(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        for sock in connection.sockets:
            self._close(sock)
        if not self._is_accepting:
            self._set_accepting(True)

    def _watch(self, sock: socket.socket, events: int, callback: Callback) -> None:
        descriptor = sock.fileno()
        self._callbacks[descriptor] = callback
        try:
            if events:
                self._poll.modify(descriptor, events)
            else:
                # The kernel reports the end of a connection even if it is watched for no event.
                self._poll.unregister(descriptor)
        except FileNotFoundError:
            if events:
                self._poll.register(descriptor, events)

    def _close(self, sock: socket.socket) -> None:
        self._callbacks.pop(sock.fileno(), None)
        sock.close()


class _Connection:
    """A connection from a client to the service that listens on `port`."""

    def __init__(self, port: int, client: socket.socket, service: socket.socket) -> None:
        self.port = port
        self.is_finished = False
        self._client = _without_waiting(client)
        self._service = service
        self._address = "127.0.0.1"
        self._flows: tuple[_Flow, _Flow] | None = None
        self._events: dict[socket.socket, int] = {}

    @property
    def sockets(self) -> tuple[socket.socket, socket.socket]:
        return self._client, self._service

    def advance(self) -> None:
        """Do what can be done now. Raises OSError."""
        if self._flows is None and self._connect():
            self._flows = _Flow(self._client, self._service), _Flow(self._service, self._client)
        if self._flows is not None:
            for flow in self._flows:
                flow.advance()
            self.is_finished = not any(flow.is_open for flow in self._flows)

    def reset(self) -> None:
        """Closing its sockets then tells both sides that the connection is broken."""
        self.is_finished = True
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def changed_events(self) -> Iterator[tuple[socket.socket, int]]:
        for sock, events in self._wanted_events():
            if self._events.get(sock, 0) != events:
                self._events[sock] = events
                yield sock, events

    def _wanted_events(self) -> Iterator[tuple[socket.socket, int]]:
        if self._flows is None:
            yield self._service, select.EPOLLOUT
            return
        requests, responses = self._flows
        yield self._client, requests.source_events | responses.target_events
        yield self._service, responses.source_events | requests.target_events

    def _connect(self) -> bool:
        """Whether it is connected. Tries IPv6 if nothing listens on IPv4."""
        code = self._service.connect_ex((self._address, self.port))
        if code in _UNFINISHED:
            return False
        if code in _CONNECTED:
            return True
        if self._service.family == socket.AF_INET6:
            raise OSError(code, "nothing listens on this port")
        self._service.close()
        self._service = _new_socket(socket.AF_INET6)
        self._address = "::1"
        return self._connect()


class _Flow:
    """One direction. Reads only when everything that it has read is written."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.is_open = True
        self._source = source
        self._target = target
        self._unwritten = b""

    @property
    def source_events(self) -> int:
        return select.EPOLLIN if self.is_open and not self._unwritten else 0

    @property
    def target_events(self) -> int:
        return select.EPOLLOUT if self._unwritten else 0

    def advance(self) -> None:
        if not self.is_open:
            return
        with contextlib.suppress(BlockingIOError):
            self._unwritten = self._unwritten or self._source.recv(BUFFER_BYTES)
            if self._unwritten:
                sent = self._target.send(self._unwritten)
                self._unwritten = self._unwritten[sent:]
            else:
                self.is_open = False
                self._target.shutdown(socket.SHUT_WR)


def _new_socket(family: socket.AddressFamily) -> socket.socket:
    sock = _without_waiting(socket.socket(family, socket.SOCK_STREAM))
    _fix_buffers(sock)
    return sock


def _without_waiting(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _fix_buffers(sock: socket.socket) -> None:
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
