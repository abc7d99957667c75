"""Records which phase a run is in. Short phases are stored with its start and its end; while one
lasts, it is stored in the background. No run fails or waits for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from agentjobs.jobs.phases import (
    Interruption,
    PhaseName,
    StoredPhase,
    StoredRun,
    decode_runs,
    encode_runs,
    finished_runs,
)
from agentjobs_runtime.clock import elapsed_ms
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ServiceError
from agentjobs_runtime.protocol.outcomes import (
    DiskFull,
    Kept,
    LostSandbox,
    NotReady,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_runtime.tracing.spans import reserve_span

_STORE_SECONDS = 1.0
_INTERRUPTIONS: dict[type, Interruption] = {
    Released: "worker_stopped",
    Unreachable: "unreachable",
    NotReady: "environment_building",
    DiskFull: "disk_full",
    LostSandbox: "sandbox_lost",
}


class RunPhases:
    """Begins with the wait in the queue, and with the preparation. The run of a job whose agent was
    adopted, or whose work is kept, goes on."""

    def __init__(self, job: ClaimedJob, *, clock_ms: Callable[[], int] | None = None) -> None:
        self._job = job
        self._clock_ms = clock_ms or _clock_since(job.claimed_at)
        self._is_new = asyncio.Event()
        self._stored = job.phases
        runs = decode_runs(job.phases)
        goes_on = job.is_adopted or job.kept_at is not None
        if goes_on and runs and runs[-1].ended_at is None:
            self._earlier, self._run = runs[:-1], runs[-1]
            return
        self._earlier = tuple(finished_runs(runs))
        queued = StoredPhase("queued", job.queued_at)
        attempt = self._earlier[-1].attempt + 1 if self._earlier else 1
        self._run = StoredRun(attempt, (queued,), span=reserve_span(job.traceparent))
        self.begin("prepare")

    @property
    def span(self) -> str | None:
        return self._run.span

    @property
    def claimed_at(self) -> int:
        """When the worker began with the run."""
        return self._run.phases[min(1, len(self._run.phases) - 1)].started_at

    def begin(self, name: PhaseName) -> None:
        self._run = self._run.begin(name, self._clock_ms())
        self._is_new.set()

    def encode(self) -> str:
        return encode_runs((*self._earlier, self._run))

    def mark_stored(self, text: str) -> None:
        self._stored = text

    def encode_end(self, outcome: Outcome) -> str:
        if isinstance(outcome, Kept):
            self.begin("push")
            return self.encode()
        interruption = _INTERRUPTIONS.get(type(outcome))
        ended = msgspec.structs.replace(
            self._run, ended_at=self._clock_ms(), interruption=interruption
        )
        return encode_runs((*self._earlier, ended))

    @contextlib.asynccontextmanager
    async def store_in_background(
        self, store: Callable[[str], Awaitable[None]]
    ) -> AsyncIterator[None]:
        task = asyncio.create_task(self._store_when_new(store))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _store_when_new(self, store: Callable[[str], Awaitable[None]]) -> None:
        while True:
            await self._is_new.wait()
            await asyncio.sleep(_STORE_SECONDS)
            self._is_new.clear()
            text = self.encode()
            if text == self._stored:
                continue
            with contextlib.suppress(ServiceError):
                await store(text)
                self.mark_stored(text)


def _clock_since(claimed_at: int) -> Callable[[], int]:
    """Continues the database's time from the claim: this machine's clock may be wrong."""
    offset_ms = claimed_at - elapsed_ms()
    return lambda: elapsed_ms() + offset_ms
