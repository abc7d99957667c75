"""One HTTP/1.1 connection to an untrusted server: sends a request, reads its response.

Owns the deadlines. The size limits of a response are in `response`; dialling is in `pool`.
"""

import asyncio
import socket
import time
from typing import cast

from agentjobs.webhooks.untrusted_http.response import InvalidResponse, Response

# An int, because combining the flags takes longer than the call.
_PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)


class ClosedEarly(ConnectionError):
    """The server closed the connection before a response arrived."""

    def __init__(self) -> None:
        super().__init__("the connection was closed")


class UntrustedConnection(asyncio.Protocol):
    """`response` belongs to the latest request; its head arrived at `responded_at` (monotonic)."""

    def __init__(self, sock: socket.socket, address: str) -> None:
        self.address = address
        self.response: Response | None = None
        self.responded_at = 0.0
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_seconds = 0.0
        # Why no further request can be sent.
        self._error: Exception | None = None

    def send_request(
        self, request: bytes, head_deadline: float, body_seconds: float
    ) -> "asyncio.Future[None]":
        """Done when no more of the response will be read. Without a response head it fails with
        TimeoutError, InvalidResponse, ClosedEarly or the connection's own error.

        `head_deadline` is in the loop's time; `body_seconds` start with the head."""
        self.response = Response()
        self._body_seconds = body_seconds
        self._waiter = waiter = self._loop.create_future()
        if self._error is not None or self._transport is None:
            self._fail(self._error or ClosedEarly())
            return waiter
        self._timer = self._loop.call_at(head_deadline, self._on_timeout)
        self._transport.write(request)
        return waiter

    @property
    def has_response_head(self) -> bool:
        return self.response is not None and self.response.status != 0

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow, as far as the process knows."""
        if self._error is not None or self._waiter is not None:
            return False
        return self.response is None or self.response.keeps_connection

    def has_no_input(self) -> bool:
        """False if the socket holds unread bytes or EOF that the event loop has not seen yet."""
        try:
            self._sock.recv(1, _PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def abort(self) -> None:
        # Never a TLS close_notify, which waits half a minute for a server that does not reply.
        self._error = self._error or ClosedEarly()
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        response = self.response
        if response is None or self._waiter is None:
            self._error = self._error or InvalidResponse("data arrived without a request")
            self.abort()
            return
        had_head = response.status
        try:
            response.feed(data)
        except InvalidResponse as error:
            self._fail(error)
            return
        if response.status and not had_head:
            self._on_head(response)
        if response.is_complete:
            self._finish()

    def eof_received(self) -> None:
        self._end(ClosedEarly())
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end(exc or ClosedEarly())

    # Ends of an exchange

    def _on_head(self, response: Response) -> None:
        self.responded_at = time.monotonic()
        if not response.is_complete and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(self._body_seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        self._end(TimeoutError())

    def _end(self, error: Exception) -> None:
        """Once the head has arrived, a late or cut off body is not an error."""
        if self._waiter is None:
            self._error = self._error or error
        elif self.has_response_head:
            self._finish()
        else:
            self._fail(error)

    def _finish(self) -> None:
        waiter = self._stop_waiting()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self.response is not None and not self.response.keeps_connection:
            self.abort()

    def _fail(self, error: Exception) -> None:
        waiter = self._stop_waiting()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.abort()

    def _stop_waiting(self) -> "asyncio.Future[None] | None":
        waiter, self._waiter = self._waiter, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.response is not None:
            self.response.close()
        return waiter
