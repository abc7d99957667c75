"""A job's log: all of it so far as text, or followed as server-sent events that can be resumed.

With `?timestamps=true` every line begins with the time it was written.
"""

import re
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.model import LogChunk
from agentjobs.jobs.states import FINAL
from agentjobs.jobs.views.queries import ensure_job
from agentjobs.json_fields import doc
from agentjobs.problems import Problem
from agentjobs.web.api.auth import until_refused
from agentjobs.web.api.endpoint import Call
from agentjobs.web.api.errors import stopping, validation_failed
from agentjobs.web.api.headers import all_headers, media_type
from agentjobs.web.api.jobs import job_id_of
from agentjobs.web.api.log_times import LineTimes
from agentjobs.web.api.presence import Gone, while_present
from agentjobs.web.api.query import read_query
from agentjobs.web.context import WebContext

EVENT_STREAM = "text/event-stream"
MAX_SEQUENCE = 2**53 - 1

_CHUNKS_AT_ONCE = 64
# Proxies close what is silent for a minute; half of that keeps them and dead clients in check.
_HEARTBEAT_SECONDS = 25.0
_HEARTBEAT = b": still here\n\n"
_FIRST_WORDS = b"retry: 1000\n\n"
_SEQUENCE = re.compile(rb"[0-9]{1,16}")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_STORE = (b"cache-control", b"no-store")
_NOSNIFF = (b"x-content-type-options", b"nosniff")


class LogQuery(msgspec.Struct, frozen=True):
    timestamps: Annotated[
        bool, doc("With `true` every line begins with the time it was written, in UTC.")
    ] = False


async def show(call: Call) -> Response:
    job_id = job_id_of(call)
    after = _last_event_id(call.scope)
    times = _line_times(call.scope)
    await ensure_job(call.context.db, call.caller.organization_id, job_id)
    if _wants_events(call.scope):
        if call.context.stopping.is_set():
            raise stopping()
        return EventStream(call.context, call.caller.organization_id, job_id, after, times)
    return LogText(call.context, job_id, times)


class LogText(Response):
    """Everything written until now, streamed in the store's own chunks."""

    def __init__(self, context: WebContext, job_id: str, times: LineTimes | None) -> None:
        super().__init__()
        self._context = context
        self._job_id = job_id
        self._times = times
        self.raw_headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            _NO_STORE,
            _NOSNIFF,
        ]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await _start(self.raw_headers, send)
        if scope["method"] != "HEAD":
            async for chunk in self._chunks():
                text = chunk.text if self._times is None else self._times.stamped(chunk)
                body = text.encode("utf-8", "replace")
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _chunks(self) -> AsyncIterator[LogChunk]:
        after = 0
        more = True
        while more:
            chunks = await read_chunks(self._context.db, self._job_id, after, _CHUNKS_AT_ONCE)
            for chunk in chunks:
                yield chunk
                after = chunk.sequence
            more = len(chunks) == _CHUNKS_AT_ONCE


class EventStream(Response):
    """An event per chunk, `event: end` once the job is final and all is sent.

    CommitRange without that event when the service stops, and the client comes back with
    `Last-Event-ID`; or when its key is revoked, and then it is told so.
    """

    def __init__(
        self,
        context: WebContext,
        organization_id: str,
        job_id: str,
        after: int,
        times: LineTimes | None,
    ) -> None:
        super().__init__()
        self._context = context
        self._organization_id = organization_id
        self._job_id = job_id
        self._after = after
        self._times = times
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            # nginx would otherwise hold events back until its buffer is full.
            (b"x-accel-buffering", b"no"),
            _NO_STORE,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _start(self.raw_headers, send)
        if scope["method"] != "HEAD":
            context = self._context
            refused = until_refused(context, scope)
            left = await while_present(self._follow(send), receive, context.stopping, refused)
            if left is Gone.CLIENT:
                return
        await send({"type": "http.response.body", "body": b""})

    async def _follow(self, send: Send) -> None:
        await _say(send, _FIRST_WORDS)
        if self._times is not None and self._after:
            # Whether the first piece goes on with a line that was begun before.
            before = await read_chunks(self._context.db, self._job_id, self._after - 1, 1)
            self._times.begin_after(_with_line_feeds(chunk).text for chunk in before)
        topics = (f"log:{self._job_id}", f"job:{self._job_id}")
        with self._context.db.changes.listen(*topics) as signal:
            while not await self._send_what_is_there(send):
                if not await signal.wait(_HEARTBEAT_SECONDS):
                    await _say(send, _HEARTBEAT)

    async def _send_what_is_there(self, send: Send) -> bool:
        """True when nothing can follow any more."""
        # The status first: whatever a final job wrote is there once its status can be read.
        status = await self._status()
        while chunks := await read_chunks(
            self._context.db, self._job_id, self._after, _CHUNKS_AT_ONCE
        ):
            await _say(send, b"".join(log_event(chunk, self._times) for chunk in chunks))
            self._after = chunks[-1].sequence
        if status is None or status in FINAL:
            await _say(send, f"event: end\ndata: {status or 'gone'}\n\n".encode())
            return True
        return False

    async def _status(self) -> str | None:
        try:
            return await ensure_job(self._context.db, self._organization_id, self._job_id)
        except Problem:
            # Pruned while somebody read it.
            return None


def log_event(chunk: LogChunk, times: LineTimes | None = None) -> bytes:
    chunk = _with_line_feeds(chunk)
    text = chunk.text if times is None else times.stamped(chunk)
    data = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"id: {chunk.sequence}\n{data}\n".encode("utf-8", "replace")


def _with_line_feeds(chunk: LogChunk) -> LogChunk:
    """A carriage return ends a line in this format too, so it cannot be told from a line feed."""
    return msgspec.structs.replace(chunk, text=_LINE_END.sub("\n", chunk.text))


def _line_times(scope: Scope) -> LineTimes | None:
    return LineTimes() if read_query(scope, LogQuery).timestamps else None


def _wants_events(scope: Scope) -> bool:
    accepted = b",".join(all_headers(scope, b"accept")).decode("latin-1")
    return any(media_type(each) == EVENT_STREAM for each in accepted.split(","))


def _last_event_id(scope: Scope) -> int:
    values = all_headers(scope, b"last-event-id")
    if not values:
        return 0
    if len(values) == 1 and _SEQUENCE.fullmatch(values[0]) and int(values[0]) <= MAX_SEQUENCE:
        return int(values[0])
    raise validation_failed(
        [{"field": "Last-Event-ID", "message": "must be the id of an event of this stream"}]
    )


async def _start(headers: list[tuple[bytes, bytes]], send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _say(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})
