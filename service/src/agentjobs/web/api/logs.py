"""A job's log, as text or as a resumable stream of server-sent events.

With `?timestamps=true`, every line starts with the time it was written; with `?tail_bytes=`, the
text is only the end of the log.
"""

import re
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from agentjobs.jobs.logs.chunks import read_chunks, read_last_chunks
from agentjobs.jobs.lookup import ensure_job
from agentjobs.jobs.model import LogChunk
from agentjobs.jobs.states import FINAL
from agentjobs.web.api.auth import wait_until_revoked
from agentjobs.web.api.connected import Interruption, run_while_connected
from agentjobs.web.api.endpoint import Call
from agentjobs.web.api.errors import stopping, validation_failed
from agentjobs.web.api.headers import all_headers, names_type
from agentjobs.web.api.jobs import parse_job_id
from agentjobs.web.api.query import read_query
from agentjobs.web.context import WebContext
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.json_fields import doc
from agentjobs_runtime.problems import Problem

EVENT_STREAM = "text/event-stream"
MAX_SEQUENCE = 2**53 - 1
MAX_TAIL_BYTES = 1024 * 1024

_CHUNKS_PER_READ = 64
# Proxies close connections that are silent for a minute; writing also detects dead clients.
_HEARTBEAT_SECONDS = 25.0
_HEARTBEAT = b": still here\n\n"
_PREAMBLE = b"retry: 1000\n\n"
_SEQUENCE = re.compile(rb"[0-9]{1,16}")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_STORE = (b"cache-control", b"no-store")
_TEXT_HEADERS = (
    (b"content-type", b"text/plain; charset=utf-8"),
    _NO_STORE,
    (b"x-content-type-options", b"nosniff"),
)


class LogQuery(msgspec.Struct, frozen=True):
    timestamps: Annotated[
        bool, doc("With `true`, every line starts with the time it was written, in UTC.")
    ] = False
    tail_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_TAIL_BYTES)] | None,
        doc(
            "Of the text, only the lines at the end that fit into this size; `X-Log-Truncated` says"
            " whether there are more. A stream ignores it."
        ),
    ] = None


class LineTimestamps:
    """Prefixes lines with the time of the chunk in which they start."""

    def __init__(self) -> None:
        self._is_inside_line = False

    def continue_after(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._is_inside_line = not text.endswith("\n")

    def prefix_lines(self, chunk: LogChunk) -> str:
        if not chunk.text:
            return ""
        time = f"{iso_utc(chunk.created_at)} "
        first = "" if self._is_inside_line else time
        self.continue_after((chunk.text,))
        # Not after a trailing line feed: the next chunk starts that line.
        return first + chunk.text[:-1].replace("\n", f"\n{time}") + chunk.text[-1]


async def show(call: Call) -> Response:
    job_id = parse_job_id(call)
    after = _last_event_id(call.scope)
    query = read_query(call.scope, LogQuery)
    timestamps = LineTimestamps() if query.timestamps else None
    await ensure_job(call.context.db, call.caller.organization_id, job_id)
    if names_type(call.scope, EVENT_STREAM):
        if call.context.stopping.is_set():
            raise stopping()
        return EventStream(call, job_id, after, timestamps)
    if query.tail_bytes is not None:
        return await _tail(call.context, job_id, query.tail_bytes, timestamps)
    is_read = call.scope["method"] != "HEAD"
    response = StreamingResponse(_read_log(call.context, job_id, timestamps) if is_read else ())
    response.raw_headers = list(_TEXT_HEADERS)
    return response


async def _tail(
    context: WebContext, job_id: str, max_bytes: int, timestamps: LineTimestamps | None
) -> Response:
    # One character more shows whether the tail starts with a line.
    chunks = await read_last_chunks(context.db, job_id, max_bytes + 1)
    content = "".join(_text(chunk, timestamps) for chunk in chunks).encode("utf-8", "replace")
    is_cut = len(content) > max_bytes
    if is_cut:
        content = _last_lines(content[-max_bytes - 1 :])
    response = Response(content)
    response.raw_headers = [
        (b"content-length", str(len(content)).encode()),
        *_TEXT_HEADERS,
        (b"x-log-truncated", b"true" if is_cut else b"false"),
    ]
    return response


def _last_lines(content: bytes) -> bytes:
    """Without the rest of the first line; of a single line, without its first character."""
    start = content.find(b"\n", 0, -1) + 1
    return content[start or 1 :].decode("utf-8", "ignore").encode()


async def _read_log(
    context: WebContext, job_id: str, timestamps: LineTimestamps | None
) -> AsyncIterator[bytes]:
    """The log so far, in the chunks of the store."""
    after = 0
    while chunks := await read_chunks(context.db, job_id, after, _CHUNKS_PER_READ):
        for chunk in chunks:
            yield _text(chunk, timestamps).encode("utf-8", "replace")
        after = chunks[-1].sequence


def _text(chunk: LogChunk, timestamps: LineTimestamps | None) -> str:
    return chunk.text if timestamps is None else timestamps.prefix_lines(chunk)


class EventStream(Response):
    """One event per chunk, then `event: end` once the job is final and everything was sent.

    Ends without that event when the service stops or the key is revoked. The client then
    reconnects with `Last-Event-ID`, and is refused if its key is no longer valid.
    """

    def __init__(
        self, call: Call, job_id: str, after: int, timestamps: LineTimestamps | None
    ) -> None:
        super().__init__()
        self._context = call.context
        self._caller = call.caller
        self._job_id = job_id
        self._after = after
        self._timestamps = timestamps
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            # Otherwise nginx buffers events.
            (b"x-accel-buffering", b"no"),
            _NO_STORE,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._context.open_requests.hold(self._caller.key_id):
            await self._send(scope, receive, send)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            context = self._context
            revoked = wait_until_revoked(context, scope)
            interruption = await run_while_connected(
                self._follow(send), receive, context.stopping, revoked
            )
            if interruption is Interruption.CLIENT:
                return
        await send({"type": "http.response.body", "body": b""})

    async def _follow(self, send: Send) -> None:
        await _send(send, _PREAMBLE)
        if self._timestamps is not None and self._after:
            # The first chunk may continue a line of the previous one.
            before = await read_chunks(self._context.db, self._job_id, self._after - 1, 1)
            self._timestamps.continue_after(_with_line_feeds(chunk).text for chunk in before)
        topics = (f"log:{self._job_id}", f"job:{self._job_id}")
        with self._context.db.changes.listen(*topics) as signal:
            while not await self._send_available(send):
                if not await signal.wait(_HEARTBEAT_SECONDS):
                    await _send(send, _HEARTBEAT)

    async def _send_available(self, send: Send) -> bool:
        """True once the log is complete."""
        # Read the status first: a final job's log is complete once its status is visible.
        status = await self._status()
        while chunks := await read_chunks(
            self._context.db, self._job_id, self._after, _CHUNKS_PER_READ
        ):
            await _send(send, b"".join(log_event(chunk, self._timestamps) for chunk in chunks))
            self._after = chunks[-1].sequence
        if status is None or status in FINAL:
            await _send(send, f"event: end\ndata: {status or 'gone'}\n\n".encode())
            return True
        return False

    async def _status(self) -> str | None:
        try:
            return await ensure_job(self._context.db, self._caller.organization_id, self._job_id)
        except Problem:
            # The job was pruned in the meantime.
            return None


def log_event(chunk: LogChunk, timestamps: LineTimestamps | None = None) -> bytes:
    text = _text(_with_line_feeds(chunk), timestamps)
    data = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"id: {chunk.sequence}\n{data}\n".encode("utf-8", "replace")


def _with_line_feeds(chunk: LogChunk) -> LogChunk:
    """Server-sent events treat a carriage return as the end of a line."""
    return msgspec.structs.replace(chunk, text=_LINE_END.sub("\n", chunk.text))


def _last_event_id(scope: Scope) -> int:
    values = all_headers(scope, b"last-event-id")
    if not values:
        return 0
    if len(values) == 1 and _SEQUENCE.fullmatch(values[0]) and int(values[0]) <= MAX_SEQUENCE:
        return int(values[0])
    raise validation_failed(
        [{"field": "Last-Event-ID", "message": "must be the id of an event of this stream"}]
    )


async def _send(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})
