"""A job's log on its page: the end of it with its colours, live; all of it as a file."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from agentjobs.jobs.logs.chunks import read_chunks, read_last_chunks
from agentjobs.jobs.model import LogChunk
from agentjobs.jobs.states import FINAL
from agentjobs.jobs.views.queries import ensure_job
from agentjobs.store.database import Database
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.live import Emit, EventStream, event
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import HEADERS
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.ansi import AnsiLines, PlainLines

_CHUNKS_AT_ONCE = 16
# What a page shows, and what the script keeps of a log that goes on.
_SHOWN_LENGTH = 128 * 1024
_SHOWN_LINES = 5_000
# So that a colour or a line that began there goes on here.
_REPLAYED_LENGTH = 16 * 1024
_HEARTBEAT_SECONDS = 20.0
_HEARTBEAT = b": still here\n\n"
_MOST_SEQUENCE_DIGITS = 15


class LogTail(msgspec.Struct, frozen=True):
    """`after` is where the live part goes on; `is_whole` unless there is more before."""

    html: Markup
    rest: Markup
    after: int
    is_whole: bool


async def log_tail(db: Database, job_id: str) -> LogTail:
    chunks = await read_last_chunks(db, job_id, _SHOWN_LENGTH)
    # Others should not wait for so many lines.
    return await asyncio.to_thread(_tail, chunks)


def _tail(chunks: Sequence[LogChunk]) -> LogTail:
    lines = AnsiLines()
    text, is_whole = _newest(_text(chunks))
    html = lines.feed(text)
    first, last = (chunks[0].sequence, chunks[-1].sequence) if chunks else (1, 0)
    return LogTail(html, lines.rest(), last, is_whole and first == 1)


def _newest(text: str) -> tuple[str, bool]:
    """Its last lines, and whether that is all: nothing but line ends would be a long page."""
    lines = text.rsplit("\n", _SHOWN_LINES)
    is_whole = len(lines) <= _SHOWN_LINES
    return (text if is_whole else "\n".join(lines[1:])), is_whole


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
    job_id = await require_job_id(request)
    after = request.query_param("after")
    is_number = after.isascii() and after.isdecimal() and len(after) <= _MOST_SEQUENCE_DIGITS
    follower = _Follower(request, job_id, int(after) if is_number else 0)
    return EventStream(request, follower.follow)


class _Follower:
    """Sends the lines that come after those that a page shows."""

    def __init__(self, request: PageRequest, job_id: str, after: int) -> None:
        self._visit = request
        self._job_id = job_id
        self._after = after
        self._lines = AnsiLines()

    async def follow(self, say: Emit) -> None:
        await self._begin()
        topics = (f"log:{self._job_id}", f"job:{self._job_id}")
        with self._visit.db.changes.listen(*topics) as signal:
            while not await self._send_what_is_there(say):
                if not await signal.wait(_HEARTBEAT_SECONDS):
                    await say(_HEARTBEAT)

    async def _begin(self) -> None:
        """The style, and the line, that what came before may have left unfinished."""
        if self._after:
            before = await read_last_chunks(
                self._visit.db, self._job_id, _REPLAYED_LENGTH, before=self._after + 1
            )
            await asyncio.to_thread(self._lines.feed, _newest(_text(before))[0])

    async def _send_what_is_there(self, say: Emit) -> bool:
        """True when nothing can follow any more."""
        # The status first: whatever a final job wrote is there once its status can be read.
        status = await ensure_job(self._visit.db, self._visit.organization_id, self._job_id)
        while chunks := await self._read(self._after, _CHUNKS_AT_ONCE):
            text, _ = _newest(_text(chunks))
            # Others should not wait for so many lines.
            html = await asyncio.to_thread(self._lines.feed, text)
            self._after = chunks[-1].sequence
            sent = {"html": str(html), "rest": str(self._lines.rest()), "after": self._after}
            await say(event("lines", sent))
        if status in FINAL:
            await say(event("end", None))
            return True
        return False

    async def _read(self, after: int, limit: int) -> list[LogChunk]:
        return await read_chunks(self._visit.db, self._job_id, after, limit)


def _text(chunks: Sequence[LogChunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


ROUTES: Routes = [
    PageRoute("GET", "/jobs/{job_id}/log", "viewer", as_text),
    PageRoute("GET", "/jobs/{job_id}/log/stream", "viewer", stream),
]
