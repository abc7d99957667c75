"""Connections to servers that anybody may have named, and that may be hostile.

What such a server can make this process hold, wait for or work through is bounded here; how long
a request may take is the caller's.
"""

import functools
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from agentjobs.outbound.addresses import Allowed, with_port
from agentjobs.outbound.connector import GuardedResolver, guarded_sockets
from agentjobs.outbound.lookups import Lookups

# Servers commonly close after 5 seconds, and a request on its way just then would be lost.
KEEPALIVE_SECONDS = 4
# What is on the way to us, unread: more of an answer than this is not of interest.
RECEIVE_BYTES = 16 * 1024
# `100 Continue` and the like, before the one answer that counts.
INTERIM_ANSWERS = 8
# Of one answer in all. Reading stops far below when it is the body that is long; heads, trailers
# and the words between chunks have no other end.
ANSWER_BYTES = 128 * 1024


class EndlessAnswer(aiohttp.ClientError):
    """What the server sends is not coming to an end; the message says what."""


class StrangerConnector(aiohttp.TCPConnector):
    """`on_dial` is told each address as it is dialled: "203.0.113.7:443", "[2001:db8::1]:443"."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        tls: ssl.SSLContext,
        lookups: Lookups,
        on_dial: Callable[[str], None],
    ) -> None:
        def dialled(made: socket.socket, address: str, port: int) -> None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            on_dial(with_port(address, port))

        super().__init__(
            ssl=tls,
            resolver=GuardedResolver(allowed, lookups),
            socket_factory=guarded_sockets(allowed, dialled),
            keepalive_timeout=KEEPALIVE_SECONDS,
            limit=0,
        )
        self._factory: functools.partial[Any] = functools.partial(StrangerProtocol, loop=self._loop)


class StrangerProtocol(ResponseHandler):
    """`peer` is the address of the other end."""

    peer: str | None = None
    _bytes_left = ANSWER_BYTES
    _interim_answers = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.peer = with_port(peer[0], peer[1]) if peer else None

    def begin_answer(self) -> None:
        """To be called before each request: the bounds are those of one answer."""
        self._bytes_left = ANSWER_BYTES
        self._interim_answers = 0

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left >= 0:
            super().data_received(data)
        else:
            self._give_up(f"the answer is longer than {ANSWER_BYTES // 1024} KiB without its body")

    def feed_data(self, data: Any, size: int = 0) -> None:
        # Without a bound they arrive faster than they are read, and nothing else has a turn.
        self._interim_answers += data[0].code < HTTPStatus.OK
        if self._interim_answers <= INTERIM_ANSWERS:
            super().feed_data(data, size)
        else:
            self._give_up(f"more than {INTERIM_ANSWERS} interim answers came, and no final one")

    def close(self) -> None:
        # A farewell of TLS would wait half a minute for a server that does not answer it.
        self.abort()

    def _give_up(self, reason: str) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.set_exception(EndlessAnswer(reason))
            self.transport.abort()
