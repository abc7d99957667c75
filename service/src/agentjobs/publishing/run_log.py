"""The job's log while the service publishes its work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.store.database import Database, StoreError
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.log_decoder import SERVICE_MARKER, service_line
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.redaction.redactor import Redactor

_FLUSH_SECONDS = 0.2


class PublishingLog:
    def __init__(self, db: Database, job: ClaimedJob) -> None:
        self._db = db
        self._job = job
        self._redactor = Redactor([job.credential])
        self._lines: list[str] = []
        self._has_lines = asyncio.Event()

    def note(self, line: str) -> None:
        self._lines.append(f"{SERVICE_MARKER} {service_line(self.redact(line))}\n")
        self._has_lines.set()

    def redact(self, text: str) -> str:
        redacted = self._redactor.feed(text.encode("utf-8", "replace")) + self._redactor.end()
        return redacted.decode("utf-8", "replace")

    @contextlib.asynccontextmanager
    async def storing(self) -> AsyncIterator[None]:
        """Lines are stored soon, and all of them at the exit."""
        task = asyncio.create_task(self._store_periodically())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await self._store()

    async def _store_periodically(self) -> None:
        while True:
            await self._has_lines.wait()
            await asyncio.sleep(_FLUSH_SECONDS)
            await asyncio.shield(self._store())

    async def _store(self) -> None:
        self._has_lines.clear()
        lines, self._lines = self._lines, []
        if not lines:
            return
        # A log must not fail the job.
        with contextlib.suppress(StoreError, ClaimLost):
            await append_chunk(self._db, self._job, "".join(lines), now_ms())
