"""Collects what an agent prints and stores it in few, safe pieces: capped, valid text, in order."""

import asyncio
import codecs
import contextlib
import logging
import re
from types import TracebackType
from typing import Self

from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.logs import append_chunk
from agentjobs.jobs.outcomes import ClaimLost
from agentjobs.store.database import Database, StoreError, StoreUnavailable

_log = logging.getLogger(__name__)
_FLUSH_SECONDS = 0.2
_LAST_TRIES = 10
_MOST_CHUNK_LENGTH = 64 * 1024
# Colour sequences stay for those who show them; everything else that could drive a terminal goes.
_UNSAFE = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")


class LogWriter:
    """Use as an async context manager; leaving it stores what is still in hand."""

    def __init__(self, db: Database, job: ClaimedJob, most_bytes: int) -> None:
        self._db = db
        self._job = job
        self._left = most_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._is_inside_a_line = False
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._flush_now_and_then())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            await self._task

    def write(self, data: bytes) -> None:
        """Output of the agent, in any pieces; past the cap it is counted as seen and dropped."""
        if self._left <= 0:
            return
        data = data[: self._left]
        self._left -= len(data)
        self._add(_UNSAFE.sub("\N{REPLACEMENT CHARACTER}", self._decoder.decode(data)))
        if self._left <= 0:
            self.say("the log is full: what the agent prints from here on is not kept")

    def say(self, line: str) -> None:
        """A line of the service itself, told apart by its mark."""
        start = "\n" if self._is_inside_a_line else ""
        self._add(f"{start}[agentjobs] {line}\n")

    def _add(self, text: str) -> None:
        if text:
            self._is_inside_a_line = not text.endswith("\n")
            self._pending.append(text)
            self._wake.set()

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
            text = "".join(self._pending)
            self._pending = [text[_MOST_CHUNK_LENGTH:]] if len(text) > _MOST_CHUNK_LENGTH else []
            try:
                await append_chunk(self._db, self._job, text[:_MOST_CHUNK_LENGTH])
            except StoreUnavailable:
                self._pending.insert(0, text[:_MOST_CHUNK_LENGTH])
                self._wake.set()
                return
            except (ClaimLost, StoreError) as error:
                # The log is not worth the job: whoever holds the claim now writes it, and the run
                # learns of a lost claim elsewhere.
                _log.warning("a log was not kept: %s", error)
                self._left = 0
                self._pending.clear()
