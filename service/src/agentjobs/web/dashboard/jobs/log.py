"""A job's log: its end on the page, live and coloured, and all of it as a download."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import tzinfo
from typing import Annotated

import msgspec
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from agentjobs.jobs.logs.chunks import count_lines, read_chunks, read_last_chunks
from agentjobs.jobs.lookup import ensure_job
from agentjobs.jobs.model import LogChunk
from agentjobs.jobs.states import FINAL
from agentjobs.store.database import Database
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.live import HEARTBEAT, Emit, EventStream, event
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import HEADERS
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.ansi import AnsiLines, PlainLines
from agentjobs.web.dashboard.zones import local_time

_CHUNKS_AT_ONCE = 16
# How much a page shows, and how much the script keeps of a live log.
_MAX_LENGTH = 128 * 1024
_MAX_LINES = 5_000
# Replayed to continue an unfinished style or line.
_REPLAYED_LENGTH = 16 * 1024
_HEARTBEAT_SECONDS = 20.0


class _Query(ListQuery, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, lt=10**15)] = 0


class LogTail(msgspec.Struct, frozen=True):
    """The live part continues after chunk `after`. `is_complete` is False if lines are left out."""

    html: Markup
    rest: Markup
    after: int
    is_complete: bool
    # The number of the first line shown.
    first_line: int


async def log_tail(db: Database, job_id: str, zone: tzinfo) -> LogTail:
    chunks = await read_last_chunks(db, job_id, _MAX_LENGTH)
    left_out = 0
    if chunks and chunks[0].sequence > 1:
        left_out = await count_lines(db, job_id, before=chunks[0].sequence)
    # In a thread, because many lines take long.
    return await asyncio.to_thread(_tail, chunks, left_out, zone)


def _tail(chunks: Sequence[LogChunk], left_out: int, zone: tzinfo) -> LogTail:
    lines = AnsiLines()
    html, skipped = _feed(lines, chunks, zone)
    first, last = (chunks[0].sequence, chunks[-1].sequence) if chunks else (1, 0)
    is_complete = first == 1 and not skipped
    return LogTail(html, lines.rest(), last, is_complete, left_out + skipped + 1)


def _feed(lines: AnsiLines, chunks: Sequence[LogChunk], zone: tzinfo) -> tuple[Markup, int]:
    """The last lines with their times, and how many lines before them are left out."""
    text = _text(chunks)
    skipped = len(text) - len(newest_lines(text)[0])
    left_out = text.count("\n", 0, skipped)
    html = []
    for chunk in chunks:
        time = local_time(chunk.created_at, zone).strftime("%H:%M:%S")
        html.append(lines.feed(chunk.text[skipped:], time))
        skipped = max(skipped - len(chunk.text), 0)
    return Markup().join(html), left_out


def newest_lines(text: str) -> tuple[str, bool]:
    """The last lines, and whether they are all. Limits lines as well as length."""
    lines = text.rsplit("\n", _MAX_LINES)
    is_complete = len(lines) <= _MAX_LINES
    return (text if is_complete else "\n".join(lines[1:])), is_complete


async def as_text(request: PageRequest) -> Response:
    """A file of the lines that the page shows, without the codes for a terminal."""
    job_id = await require_job_id(request)
    headers = {
        **HEADERS,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": f'attachment; filename="{job_id}.log"',
    }
    return StreamingResponse(_plain_text(request.db, job_id), headers=headers)


async def _plain_text(db: Database, job_id: str) -> AsyncIterator[bytes]:
    lines, after = PlainLines(), 0
    while chunks := await read_chunks(db, job_id, after, _CHUNKS_AT_ONCE):
        text = await asyncio.to_thread(lines.feed, _text(chunks))
        after = chunks[-1].sequence
        yield text.encode("utf-8", "replace")
    yield lines.rest().encode("utf-8", "replace")


async def stream(request: PageRequest) -> Response:
    """The lines after those already shown."""
    job_id = await require_job_id(request)
    after, lines = _Query.read(request.query_param).after, AnsiLines()

    async def send_new_lines(emit: Emit) -> bool:
        """True when the log is complete."""
        nonlocal after
        # The status first: the log of a finished job is complete once its status is visible.
        status = await ensure_job(request.db, request.organization_id, job_id)
        while chunks := await read_chunks(request.db, job_id, after, _CHUNKS_AT_ONCE):
            # In a thread, because many lines take long.
            html, _ = await asyncio.to_thread(_feed, lines, chunks, request.zone)
            after = chunks[-1].sequence
            sent = {"html": str(html), "rest": str(lines.rest()), "after": after}
            await emit(event("lines", sent))
        return status in FINAL

    async def follow(emit: Emit) -> None:
        if after:
            # Restores the style and line that earlier output left unfinished.
            before = await read_last_chunks(request.db, job_id, _REPLAYED_LENGTH, before=after + 1)
            await asyncio.to_thread(_feed, lines, before, request.zone)
        with request.db.changes.listen(f"log:{job_id}", f"job:{job_id}") as signal:
            while not await send_new_lines(emit):
                if not await signal.wait(_HEARTBEAT_SECONDS):
                    await emit(HEARTBEAT)
        await emit(event("end", None))

    return EventStream(request, follow)


def _text(chunks: Sequence[LogChunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


ROUTES: Routes = [
    PageRoute("GET", "/jobs/{job_id}/log", "viewer", as_text),
    PageRoute("GET", "/jobs/{job_id}/log/stream", "viewer", stream),
]
