"""One connection to a server that anybody may have named: a request, its answer, the next.

Owns when waiting and reading end; what an answer may be is `answers`, who may be dialled elsewhere.
"""

import asyncio
import socket
import time
from typing import cast

from agentjobs.outbound.untrusted_http.response import Answer, BadAnswer

# An int: to put flags together takes longer than to look.
_LOOK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)


class ClosedEarly(ConnectionError):
    """The server closed the connection before an answer came."""


class StrangerConnection(asyncio.Protocol):
    """`answer` is that of the latest request, `answered_at` when its head came (monotonic)."""

    def __init__(self, sock: socket.socket, address: str) -> None:
        self.address = address
        self.answer: Answer | None = None
        self.answered_at = 0.0
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_seconds = 0.0
        # Why nothing can be asked any more, and whether the connection is gone by now.
        self._loss: Exception | None = None
        self._is_gone = False
        self._gone: asyncio.Future[None] | None = None

    def ask(
        self,
        request: bytes,
        head_until: float | None,
        body_seconds: float,
        *,
        only_head: bool = False,
    ) -> "asyncio.Future[None]":
        """Done when nothing more of the answer will be read. If no head came it fails with
        TimeoutError, BadAnswer, ClosedEarly or what the connection failed with.

        `head_until` is a time of the loop's clock; `body_seconds` begin with the head."""
        self.answer = Answer(only_head=only_head)
        self._body_seconds = body_seconds
        self._waiter = waiter = self._loop.create_future()
        if self._loss is not None or self._transport is None:
            self._fail(self._loss or _closed())
            return waiter
        if head_until is not None:
            self._timer = self._loop.call_at(head_until, self._be_late)
        self._transport.write(request)
        return waiter

    @property
    def has_answered(self) -> bool:
        return self.answer is not None and self.answer.status != 0

    @property
    def is_free(self) -> bool:
        """Whether a further request may follow, by all that is known of it."""
        if self._loss is not None or self._waiter is not None:
            return False
        return self.answer is None or self.answer.leaves_connection

    def is_silent(self) -> bool:
        """Its end, or a word too many, may have come already and wait for its turn in the loop."""
        try:
            self._sock.recv(1, _LOOK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def abort(self) -> None:
        # Never a farewell of TLS, which waits half a minute for a server that does not answer it.
        self._loss = self._loss or _closed()
        if self._transport is not None:
            self._transport.abort()

    async def until_gone(self) -> None:
        if not self._is_gone:
            self._gone = self._gone or self._loop.create_future()
            await asyncio.wait({self._gone})

    def transport(self) -> asyncio.Transport:
        """To be used by somebody else from now on; raises ClosedEarly if there is none any more."""
        if self._transport is None:
            raise _closed()
        return self._transport

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None or self._waiter is None:
            self._loss = self._loss or BadAnswer("it came without a request")
            self.abort()
            return
        had_head = answer.status
        try:
            answer.feed(data)
        except BadAnswer as error:
            self._fail(error)
            return
        if answer.status and not had_head:
            self._note_head(answer)
        if answer.is_over:
            self._finish()

    def eof_received(self) -> None:
        self._close(_closed())
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._is_gone = True
        self._close(exc or _closed())
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    # Ends of waiting

    def _note_head(self, answer: Answer) -> None:
        self.answered_at = time.monotonic()
        if not answer.is_over and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(self._body_seconds, self._be_late)

    def _be_late(self) -> None:
        self._close(TimeoutError())

    def _close(self, error: Exception) -> None:
        """With the head it is decided: a body that is late or cut changes nothing."""
        if self._waiter is None:
            self._loss = self._loss or error
        elif self.has_answered:
            self._finish()
        else:
            self._fail(error)

    def _finish(self) -> None:
        waiter = self._stop_waiting()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self.answer is not None and not self.answer.leaves_connection:
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
        if self.answer is not None:
            self.answer.end()
        return waiter


def _closed() -> ClosedEarly:
    return ClosedEarly("the connection was closed")
