"""Sends an agent's output and notes to the job's log: bounded, redacted, in order.

What the agent does step by step is stored beside them.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.log_decoder import SERVICE_MARKER, LogDecoder, service_line
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError, ServiceUnavailable
from agentjobs_runtime.protocol.messages import AppendLog
from agentjobs_runtime.redaction.redactor import Redactor
from agentjobs_worker.link.protocol import Link
from agentjobs_worker.logs.paced_calls import PacedCalls
from agentjobs_worker.logs.source import LogSource
from agentjobs_worker.logs.step_recorder import StepRecorder

_log = logging.getLogger(__name__)
_FLUSH_SECONDS = 0.2
# For an outage at the end of a run, about as long as its claim lasts.
_FINAL_SECONDS = 10.0
_MAX_CHUNK_LENGTH = 64 * 1024
# As much as is read from an agent at once. One of its events may be 4 MiB, which take seconds if it
# is full of what looks like the beginning of secrets.
_PIECE_BYTES = 64 * 1024
_MAX_NOTE_LENGTH = 2_000
# Notes do not count against the log's limit, but an agent could cause any number of them.
_MAX_NOTES_LENGTH = 256 * 1024


@dataclass(slots=True)
class _Chunk:
    at_ms: int
    texts: list[str]
    length: int
    may_be_stored: bool = False


class LogWriter:
    """An async context manager; leaving it stores what is pending."""

    def __init__(
        self,
        link: Link,
        job: ClaimedJob,
        max_bytes: int,
        secrets: Iterable[str] = (),
        *,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._link = link
        self._job = job
        self._left = max_bytes
        self._notes_left = _MAX_NOTES_LENGTH
        self._clock_ms = clock_ms
        self._redactor, self._note_redactor = Redactor(), Redactor()
        self._decoder = LogDecoder()
        self._calls = PacedCalls()
        self._redactors = [self._redactor, self._note_redactor]
        self._secrets: list[str] = []
        self._pending: deque[_Chunk] = deque()
        self._is_inside_line = False
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.steps = StepRecorder(link, job, self.redact, clock_ms, self._wake.set)
        for value in secrets:
            self.add_secret(value)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._flush_periodically())
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
        """Redact this value and its usual encodings from now on."""
        self._secrets.append(value)
        for redactor in self._redactors:
            redactor.add(value)

    def redact(self, text: str) -> str:
        """Redact other text about this job, such as an error message."""
        return _redact(self._note_redactor, text)

    async def redact_long(self, text: str) -> str:
        """`redact` in a thread, with a redactor of its own: some texts take a tenth of a second."""
        return await asyncio.to_thread(_redact, Redactor(self._secrets), text)

    def open_source(self, name: str, max_bytes: int) -> LogSource:
        """A writer for a program beside the agent, whose output has a limit of its own."""
        self._redactors.append(Redactor(self._secrets))
        return LogSource(name, max_bytes, self._redactors[-1], self._add_lines)

    def write(self, data: bytes) -> None:
        """Output of the agent, split anywhere; output above the limit is dropped."""
        pieces = (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
        self._calls.add(*(partial(self._write, piece) for piece in pieces))

    def end_output(self) -> None:
        """The program has ended: write what was held back."""
        self._calls.add(self._end_output)

    def note(self, line: str) -> None:
        """Write a line of the service, with its marker, after the output until now."""
        self._calls.add(partial(self._note, line))

    def _write(self, data: bytes) -> None:
        if self._left > 0:
            self._keep(self._redactor.feed(data))

    def _end_output(self) -> None:
        rest = self._redactor.end()
        if self._left > 0:
            self._keep(rest)
            self._add(self._decoder.end())

    def _note(self, line: str) -> None:
        if self._notes_left <= 0:
            return
        text = service_line(self.redact(line))[:_MAX_NOTE_LENGTH]
        self._notes_left -= len(text)
        if self._notes_left <= 0:
            text = "further notes of the service are not kept"
        self._add_lines(f"{SERVICE_MARKER} {text}\n")

    def _keep(self, output: bytes) -> None:
        # Truncated after the redaction, which would miss half a secret at the end.
        output = output[: self._left]
        self._left -= len(output)
        self._add(self._decoder.feed(output))
        if self._left <= 0:
            self._note("the log is full: further output of the agent is not kept")

    def _add_lines(self, text: str) -> None:
        start = "\n" if self._is_inside_line else ""
        self._add(f"{start}{text}")
        self._decoder.begin_line()

    def _add(self, text: str) -> None:
        if not text:
            return
        self._is_inside_line = not text.endswith("\n")
        now = self._clock_ms()
        for start in range(0, len(text), _MAX_CHUNK_LENGTH):
            self._append(now, text[start : start + _MAX_CHUNK_LENGTH])
        self._wake.set()

    def _append(self, now: int, text: str) -> None:
        if self._pending:
            last = self._pending[-1]
            is_near = now - last.at_ms < _FLUSH_SECONDS * 1_000 and not last.may_be_stored
            if is_near and last.length + len(text) <= _MAX_CHUNK_LENGTH:
                last.texts.append(text)
                last.length += len(text)
                return
        self._pending.append(_Chunk(now, [text], len(text)))

    async def _flush_periodically(self) -> None:
        while not self._closing.is_set():
            await self._wake.wait()
            self._wake.clear()
            await self._flush()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _FLUSH_SECONDS)
        await self._calls.wait_until_done()
        give_up_at = time.monotonic() + _FINAL_SECONDS
        await self._flush()
        while (self._pending or not self.steps.is_stored) and time.monotonic() < give_up_at:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        await self._flush_chunks()
        if not await self.steps.flush():
            self._wake.set()

    async def _flush_chunks(self) -> None:
        while self._pending:
            # Removed before it is stored: new output belongs to the next chunk.
            chunk = self._pending.popleft()
            try:
                text = "".join(chunk.texts)
                request = AppendLog(self._job.claim, text, chunk.at_ms, chunk.may_be_stored)
                await self._link.call(request)
            except ServiceUnavailable:
                chunk.may_be_stored = True
                self._pending.appendleft(chunk)
                self._wake.set()
                return
            except (ClaimLost, ServiceError) as error:
                # A log must not fail the job. The run learns of a lost claim from its lease.
                _log.warning("a log could not be stored: %s", error)
                self._left = self._notes_left = 0
                self._pending.clear()


def _redact(redactor: Redactor, text: str) -> str:
    redacted = redactor.feed(text.encode("utf-8", "replace")) + redactor.end()
    return redacted.decode("utf-8", "replace")
