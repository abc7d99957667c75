"""uvicorn's HTTP protocol with bounds: how large a request's head may be, how long it may take.

What it refuses never reaches the application, and still gets the one error shape.
"""

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from agentjobs.problems import Problem
from agentjobs.web.api.errors import error_response
from agentjobs.web.envelope import new_request_id

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

# Of a header line: the colon, a space and the line's end.
_LINE_EXTRA = 4
_NO_HTTP = Problem("bad_request", "This is not a valid HTTP request; send it again as one.")
_TOO_LARGE = Problem(
    "headers_too_large",
    f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes; send less.",
)


class _HeadTooLarge(Exception):
    """Leaves the parser, which knows no other way to stop."""


class HttpProtocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=HttpProtocol)`.

    Bytes count against the limit as long as the parser gets nowhere with them: that is true of
    an endless head, and of endless trailers. A request that arrives at once costs no timer.
    """

    _refusal = _NO_HTTP
    _deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _has_moved = False
    _arrived_bytes = 0
    _pending_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._arrived_bytes = len(data)
        self._has_moved = False
        super().data_received(data)
        if not self._has_moved:
            self._pending_bytes += len(data)
            if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(_TOO_LARGE)
        if self._deadline is None and (self._in_head or not self._is_answering()):
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        received = self._pending_bytes + self._arrived_bytes
        if received > MAX_HEAD_BYTES and self._head_bytes() > MAX_HEAD_BYTES:
            self._refusal = _TOO_LARGE
            raise _HeadTooLarge
        self._in_head = False
        self._drop_deadline()
        self._moved()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's name for it
        self._refuse(self._refusal)

    def _moved(self) -> None:
        self._has_moved = True
        self._pending_bytes = 0

    def _head_bytes(self) -> int:
        lines = sum(len(name) + len(value) + _LINE_EXTRA for name, value in self.headers)
        return len(self.url) + lines

    def _is_answering(self) -> bool:
        # uvicorn says there is always one; before the first request there is none.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        # An answer under way is worth more; its end sets the time until the next request.
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        if self._may_speak():
            self._write_refusal(problem)
        self.transport.close()

    def _may_speak(self) -> bool:
        """Not in the middle of another request's answer, nor in its place."""
        if self.pipeline:
            return False
        return not self._is_answering() or (
            self.cycle.more_body and not self.cycle.response_started
        )

    def _write_refusal(self, problem: Problem) -> None:
        request_id = new_request_id()
        response = error_response(problem, request_id.decode())
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            (b"x-request-id", request_id),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        status_line = STATUS_LINE[response.status_code]
        self.transport.write(status_line + head + b"\r\n" + bytes(response.body))
