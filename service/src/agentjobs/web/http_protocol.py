"""uvicorn's HTTP protocol with limits on the size and duration of a request's headers.

Rejected requests never reach the application, but get the same error shape.
"""

import asyncio
import functools
from typing import cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from agentjobs.web.api.errors import error_response
from agentjobs.web.exchange import WHOLE_BODY, WRITER, Headers, new_request_id
from agentjobs_runtime.problems import Problem

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

# The colon, space and CRLF of a header line.
_LINE_OVERHEAD_BYTES = 4
_NOT_HTTP = Problem("bad_request", "This is not a valid HTTP request.")
_TOO_LARGE = Problem(
    "headers_too_large",
    f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes; send less.",
)


class _HeadTooLarge(Exception):
    """Raised from a callback: the only way to stop the parser."""


class HttpProtocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=HttpProtocol)`.

    Bytes count against the limit until the parser completes something with them, which covers
    endless headers and endless trailers. A request that arrives in one piece starts no timer.
    """

    _problem = _NOT_HTTP
    _deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _made_progress = False
    _arrived_bytes = 0
    _pending_bytes = 0
    _idle_since = 0.0
    # The request whose head is part of the data that is being parsed.
    _new_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._close_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super()._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._arrived_bytes = len(data)
        self._made_progress = False
        self._new_cycle = None
        super().data_received(data)
        if not self._made_progress:
            self._pending_bytes += len(data)
            if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._reject(_TOO_LARGE)
        if self._deadline is None and (self._in_head or not self._is_responding()):
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._close_idle)

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        received = self._pending_bytes + self._arrived_bytes
        if received > MAX_HEAD_BYTES and self._head_bytes() > MAX_HEAD_BYTES:
            self._problem = _TOO_LARGE
            raise _HeadTooLarge
        self._in_head = False
        self._cancel_deadline()
        self._note_progress()
        super().on_headers_complete()
        self._new_cycle = self.cycle
        self.scope[WRITER] = functools.partial(_write_response, self.cycle)  # type: ignore[literal-required]  # for our own layers

    def on_body(self, body: bytes) -> None:
        self._note_progress()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._note_progress()
        super().on_message_complete()
        if self._new_cycle is self.cycle:
            # The application has not started yet, so it has read nothing of the body.
            self.scope[WHOLE_BODY] = self.cycle.body  # type: ignore[literal-required]  # for our own layers

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._start_keep_alive(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._in_head or self._is_responding():
            return
        remaining_seconds = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if remaining_seconds > 0:
            self._start_keep_alive(remaining_seconds)
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        self._reject(self._problem)

    def _start_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _unset_keepalive_if_required(self) -> None:
        # One timer for many requests: `timeout_keep_alive_handler` checks whether it is still due.
        pass

    def _note_progress(self) -> None:
        self._made_progress = True
        self._pending_bytes = 0

    def _head_bytes(self) -> int:
        lines = sum(len(name) + len(value) + _LINE_OVERHEAD_BYTES for name, value in self.headers)
        return len(self.url) + lines

    def _is_responding(self) -> bool:
        # uvicorn's type says it is never None, but it is before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_idle(self) -> None:
        self._deadline = None
        # Let a response in progress finish; its end starts the keep-alive timeout.
        if not self._is_responding() and not self.transport.is_closing():
            self.transport.close()

    def _reject(self, problem: Problem) -> None:
        if self._may_respond():
            self._write_error(problem)
        self.transport.close()

    def _may_respond(self) -> bool:
        """False while another request's response is being written or is still due."""
        if self.pipeline:
            return False
        return not self._is_responding() or (
            self.cycle.more_body and not self.cycle.response_started
        )

    def _write_error(self, problem: Problem) -> None:
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


def _write_response(
    cycle: RequestResponseCycle,
    status: int,
    headers: Headers,
    lines: bytes,
    request_id: bytes,
    body: bytes,
) -> bool:
    """Writes what `cycle.send` would write for the two messages of a response."""
    if (
        cycle.response_started
        or cycle.disconnected
        or cycle.flow.write_paused
        or not cycle.keep_alive
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(
        b"%b%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n%b"
        % (_head(status, (*cycle.default_headers, *headers)), lines, len(body), request_id, body)
    )
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


@functools.lru_cache(maxsize=64)
def _head(status: int, headers: Headers) -> bytes:
    """The same for all responses of a kind until the Date header changes."""
    lines = (b"%b: %b\r\n" % header for header in headers)
    return STATUS_LINE[status] + b"".join(lines)
