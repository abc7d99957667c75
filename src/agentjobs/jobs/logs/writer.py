"""Collects what an agent prints and stores it in few pieces: capped, safe, in order, with times.

No secret it was told of gets past it, in the agent's words or in the service's.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from agentjobs.clock import now_ms
from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.jobs.logs.decoder import SERVICE_MARK, LogDecoder, service_line
from agentjobs.jobs.logs.redaction import Redactor
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.store.database import Database, StoreError, StoreUnavailable
from agentjobs.store.leases import ClaimLost

_log = logging.getLogger(__name__)
_FLUSH_SECONDS = 0.2
_LAST_TRIES = 10
_MOST_CHUNK_LENGTH = 64 * 1024
_MOST_LINE_LENGTH = 2_000
# The service's own words are kept beside a full log, but an agent may provoke them without end.
_MOST_SERVICE_LENGTH = 256 * 1024


@dataclass(slots=True)
class _Piece:
    at_ms: int
    texts: list[str]
    length: int


class LogWriter:
    """Use as an async context manager; leaving it stores what is still in hand."""

    def __init__(
        self,
        db: Database,
        job: ClaimedJob,
        max_bytes: int,
        secrets: Iterable[str] = (),
        *,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._db = db
        self._job = job
        self._left = max_bytes
        self._service_left = _MOST_SERVICE_LENGTH
        self._clock_ms = clock_ms
        self._redactor, self._own_redactor = Redactor(), Redactor()
        self._text = LogDecoder()
        self._pending: deque[_Piece] = deque()
        self._is_inside_a_line = False
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        for value in secrets:
            self.add_secret(value)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._flush_now_and_then())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_output()
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            await self._task

    def add_secret(self, value: str) -> None:
        """From here on this value is not shown, nor its usual encodings."""
        self._redactor.add(value)
        self._own_redactor.add(value)

    def redact(self, text: str) -> str:
        """Other words about this job that are shown, such as the reason of a failure."""
        data = text.encode("utf-8", "replace")
        shown = self._own_redactor.feed(data) + self._own_redactor.end()
        return shown.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Output of the agent, in any pieces; past the cap it is dropped."""
        if self._left > 0:
            self._keep(self._redactor.feed(data))

    def end_output(self) -> None:
        """The program is gone: what was held back, in case it went on, is shown now."""
        rest = self._redactor.end()
        if self._left > 0:
            self._keep(rest)
            self._add(self._text.end())

    def note(self, line: str) -> None:
        """A line of the service itself, told apart by its mark."""
        if self._service_left <= 0:
            return
        text = service_line(self.redact(line))[:_MOST_LINE_LENGTH]
        self._service_left -= len(text)
        if self._service_left <= 0:
            text = "further words of the service are not kept"
        start = "\n" if self._is_inside_a_line else ""
        self._add(f"{start}{SERVICE_MARK} {text}\n")
        self._text.begin_line()

    def _keep(self, shown: bytes) -> None:
        # Cut after the redaction: before it, half a secret could be left at the end.
        shown = shown[: self._left]
        self._left -= len(shown)
        self._add(self._text.feed(shown))
        if self._left <= 0:
            self.note("the log is full: what the agent prints from here on is not kept")

    def _add(self, text: str) -> None:
        if not text:
            return
        self._is_inside_a_line = not text.endswith("\n")
        now = self._clock_ms()
        for start in range(0, len(text), _MOST_CHUNK_LENGTH):
            self._append(now, text[start : start + _MOST_CHUNK_LENGTH])
        self._wake.set()

    def _append(self, now: int, text: str) -> None:
        if self._pending:
            last = self._pending[-1]
            is_near = now - last.at_ms < _FLUSH_SECONDS * 1_000
            if is_near and last.length + len(text) <= _MOST_CHUNK_LENGTH:
                last.texts.append(text)
                last.length += len(text)
                return
        self._pending.append(_Piece(now, [text], len(text)))

    async def _flush_now_and_then(self) -> None:
        while not self._closing.is_set():
            await self._wake.wait()
            self._wake.clear()
            await self._flush()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _FLUSH_SECONDS)
        for _ in range(_LAST_TRIES):
            await self._flush()
            if not self._pending:
                return
            await asyncio.sleep(_FLUSH_SECONDS)

    async def _flush(self) -> None:
        while self._pending:
            # Taken out before it is stored: what comes meanwhile belongs to the next piece.
            piece = self._pending.popleft()
            try:
                await append_chunk(self._db, self._job, "".join(piece.texts), piece.at_ms)
            except StoreUnavailable:
                self._pending.appendleft(piece)
                self._wake.set()
                return
            except (ClaimLost, StoreError) as error:
                # The log is not worth the job: whoever holds the claim now writes it, and the run
                # learns of a lost claim elsewhere.
                _log.warning("a log was not kept: %s", error)
                self._left = self._service_left = 0
                self._pending.clear()
