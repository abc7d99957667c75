"""Sends what an agent does to the service: bounded, redacted, in the order of its reports."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from agentjobs_runtime.agents.steps import Step, StoredStep, to_state
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError, ServiceUnavailable
from agentjobs_runtime.protocol.messages import FindLastStep, StoreSteps
from agentjobs_runtime.safe_text import (
    ellipsize,
    single_line,
    strip_control_characters,
    strip_escape_sequences,
)
from agentjobs_worker.link.protocol import Link

MAX_STEPS = 2_000
MAX_TITLE_LENGTH = 300
MAX_DETAIL_LENGTH = 4_000

_log = logging.getLogger(__name__)
# With 4,000 characters each; on SQLite a transaction blocks the event loop.
_BATCH = 50
_MAX_KEY_LENGTH = 200
_FULL = Step(title=f"Further steps are not recorded: a job has at most {MAX_STEPS:,}.")


class StepRecorder:
    """The steps of one run. `redact` removes secrets; `on_change` is called when there is something
    to store."""

    def __init__(
        self,
        link: Link,
        job: ClaimedJob,
        redact: Callable[[str], str],
        clock_ms: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        self._link = link
        self._job = job
        self._redact = redact
        self._clock_ms = clock_ms
        self._on_change = on_change
        self._began_at = clock_ms()
        self._count = 0
        # Steps by the agent's key.
        self._running: dict[str, StoredStep] = {}
        # Steps by number, as of the last change. Texts are redacted when they are stored.
        self._pending: dict[int, StoredStep] = {}
        # The number before the first of this run; None until the service has said it.
        self._base: int | None = None
        self._is_closed = False

    @property
    def is_stored(self) -> bool:
        return not self._pending

    def record(self, step: Step) -> None:
        """A step, or the end of one that is running."""
        if self._is_closed:
            return
        key = step.key[:_MAX_KEY_LENGTH]
        running = self._running.pop(key, None) if key else None
        if running is not None:
            self._put(self._completed(running, step), key)
        elif step.title and self._count < MAX_STEPS:
            self._count += 1
            self._put(self._added(step if self._count < MAX_STEPS else _FULL), key)

    def end(self) -> None:
        """The agent is dead: what was running did not finish."""
        for step in self._running.values():
            self._pending[step.sequence] = msgspec.structs.replace(step, state="unfinished")
        self._running.clear()
        self._on_change()

    async def flush(self) -> bool:
        """Store what is pending now. False if the service is away: then it is still pending."""
        # Not what changes meanwhile: an agent that never pauses would keep the log from its turn.
        pending = list(self._pending.values())
        for start in range(0, len(pending), _BATCH):
            batch = pending[start : start + _BATCH]
            try:
                await self._store([await self._clean(step) for step in batch])
            except ServiceUnavailable:
                return False
            except (ClaimLost, ServiceError) as error:
                # Steps must not fail the job. The run learns of a lost claim from its lease.
                _log.warning("steps could not be stored: %s", error)
                self._is_closed = True
                self._pending.clear()
                return True
            for step in batch:
                # Unless it has changed meanwhile.
                if self._pending.get(step.sequence) is step:
                    del self._pending[step.sequence]
        return True

    async def _store(self, batch: list[StoredStep]) -> None:
        if self._base is None:
            # Only an adopted job has steps already: those of an earlier attempt are removed.
            self._base = 0
            if self._job.is_adopted:
                self._base = await self._link.call(FindLastStep(self._job.claim))
        base = self._base
        numbered = [
            msgspec.structs.replace(step, sequence=base + step.sequence)
            for step in batch
            if base + step.sequence <= MAX_STEPS
        ]
        if numbered:
            await self._link.call(StoreSteps(self._job.claim, numbered, base))

    def _put(self, step: StoredStep, key: str) -> None:
        self._pending[step.sequence] = step
        if step.state == "running":
            self._running[key] = step
        self._on_change()

    def _added(self, step: Step) -> StoredStep:
        now = self._clock_ms()
        started_at = now - (step.duration_ms or 0) if step.started_at is None else step.started_at
        return StoredStep(
            sequence=self._count,
            started_at=min(max(started_at, self._began_at), now),
            kind=step.kind,
            title=step.title[: 2 * MAX_TITLE_LENGTH],
            detail=_shorten(step.detail),
            # Without a key it cannot be ended.
            state=step.state if step.key else to_state(failed=step.state == "failed"),
            exit_code=step.exit_code,
            duration_ms=step.duration_ms,
            cost_nanousd=step.cost_nanousd,
        )

    def _completed(self, running: StoredStep, step: Step) -> StoredStep:
        detail = _shorten(step.detail)
        if running.detail and step.state != "failed":
            # What a tool was asked to do says more than that it did it.
            detail = running.detail
        duration_ms = step.duration_ms
        if duration_ms is None:
            duration_ms = max(0, self._clock_ms() - running.started_at)
        return msgspec.structs.replace(
            running,
            detail=detail,
            state=step.state,
            exit_code=step.exit_code,
            duration_ms=duration_ms,
        )

    async def _clean(self, step: StoredStep) -> StoredStep:
        # One event may have hundreds of steps, and redacting one may take a millisecond.
        await asyncio.sleep(0)
        title, detail = self._clean_text(step.title), self._clean_text(step.detail)
        return msgspec.structs.replace(
            step,
            title=ellipsize(single_line(title), MAX_TITLE_LENGTH),
            detail=ellipsize(detail.rstrip(), MAX_DETAIL_LENGTH),
        )

    def _clean_text(self, text: str) -> str:
        return strip_control_characters(strip_escape_sequences(self._redact(text)))


def _shorten(detail: str) -> str:
    """Twice what is kept: it is cut after the redaction, which would miss half a secret."""
    shortened = detail[: 2 * MAX_DETAIL_LENGTH]
    return shortened if shortened.strip() else ""
