"""The phases of a job's runs: how they are stored in its row, and how they are shown. Pure.

A phase ends when the next one begins, and the last one with its run.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, get_args

import msgspec

from agentjobs.jobs.states import FINAL, QUEUED, JobStatus
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none
from agentjobs_runtime.json_fields import Count, Timestamp, doc, known_values

PhaseName = Literal[
    "queued",
    "prepare",
    "environment",
    "agent",
    "checks",
    "push",
    # The platform does not accept the work now.
    "publishing",
    "pull_request",
]
PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
Interruption = Literal[
    "worker_lost",
    "worker_stopped",
    "sandbox_lost",
    "disk_full",
    "unreachable",
    "environment_building",
    "kept",
]
INTERRUPTIONS: tuple[Interruption, ...] = get_args(Interruption)
# A job that is interrupted again and again keeps only its last runs.
_MAX_RUNS = 10


class StoredPhase(msgspec.Struct, frozen=True, array_like=True):
    name: PhaseName
    started_at: int


class StoredRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one claim did, and the service with its work. `attempt` counts from 1; `interruption` is
    why the job ran again."""

    attempt: int
    phases: tuple[StoredPhase, ...]
    ended_at: int | None = None
    interruption: Interruption | None = None
    # The span of the run; None while no traces are recorded.
    span: str | None = None

    @property
    def current(self) -> PhaseName:
        return self.phases[-1].name

    @property
    def has_agent(self) -> bool:
        return any(phase.name == "agent" for phase in self.phases)

    def begin(self, name: PhaseName, now: int) -> "StoredRun":
        """Phases only move forward: what is done again belongs to the current one."""
        if PHASES.index(name) <= PHASES.index(self.current):
            return self
        return msgspec.structs.replace(self, phases=(*self.phases, StoredPhase(name, now)))


class JobTimes(msgspec.Struct, frozen=True):
    """The status and times of a job's row. `is_claimed`: a worker has it."""

    status: JobStatus
    is_claimed: bool
    queued_at: int
    completed_at: int | None


class PhaseView(msgspec.Struct, frozen=True):
    phase: Annotated[str, known_values("What the job does, or did.", PHASES)]
    attempt: Annotated[int, doc("The run of the job by one worker, from 1.")]
    started_at: Annotated[Timestamp, doc("When the phase began.")]
    ended_at: Annotated[Timestamp | None, doc("When it ended; null for the current phase.")]
    elapsed_ms: Annotated[Count, doc("How long it took, or has taken so far, in milliseconds.")]
    interruption: Annotated[
        str | None,
        known_values("Why the job ran again after this phase; null if it went on.", INTERRUPTIONS),
    ] = None


_decode = msgspec.json.Decoder(tuple[StoredRun, ...]).decode


def decode_runs(text: str | None) -> tuple[StoredRun, ...]:
    """Empty for phases of a newer version, which may run beside this one during an upgrade."""
    try:
        return () if text is None else _decode(text)
    except msgspec.ValidationError:
        return ()


def encode_runs(runs: Sequence[StoredRun]) -> str:
    return msgspec.json.encode(runs[-_MAX_RUNS:]).decode()


def finished_runs(runs: Sequence[StoredRun]) -> Sequence[StoredRun]:
    """Runs of earlier claims. One that ended before its agent started counts as waiting."""
    is_over = not runs or runs[-1].ended_at is not None or runs[-1].has_agent
    return runs if is_over else runs[:-1]


def current_phase(text: str | None, times: JobTimes) -> PhaseName | None:
    """None for a finished job, and if an older version runs it."""
    runs = _shown_runs(decode_runs(text), times)
    return runs[-1].current if runs and runs[-1].ended_at is None else None


def phase_views(text: str | None, times: JobTimes, now: int) -> tuple[PhaseView, ...]:
    runs = _shown_runs(decode_runs(text), times)
    return tuple(view for run in runs for view in _views(run, now))


def _shown_runs(runs: Sequence[StoredRun], times: JobTimes) -> list[StoredRun]:
    is_final = times.status in FINAL
    is_queued = times.status == QUEUED
    if is_queued and not times.is_claimed:
        runs = finished_runs(runs)
    waiting = StoredRun(
        attempt=runs[-1].attempt + 1 if runs else 1,
        phases=(StoredPhase("queued", times.queued_at),),
    )
    is_waiting = is_queued and not (times.is_claimed and runs and runs[-1].ended_at is None)
    if is_waiting or (is_final and not runs and times.completed_at is not None):
        runs = [*runs, waiting]
    ends = [*(run.phases[0].started_at for run in runs[1:]), times.completed_at]
    return [
        _end_lost(run, end, is_last=number == len(runs))
        for number, (run, end) in enumerate(zip(runs, ends, strict=bool(runs)), 1)
    ]


def _end_lost(run: StoredRun, end: int | None, *, is_last: bool) -> StoredRun:
    """A worker that was lost stored no end."""
    if run.ended_at is not None or end is None:
        return run
    return msgspec.structs.replace(
        run, ended_at=end, interruption=None if is_last else "worker_lost"
    )


def _views(run: StoredRun, now: int) -> Iterable[PhaseView]:
    ends = [*(phase.started_at for phase in run.phases[1:]), run.ended_at]
    for phase, end in zip(run.phases, ends, strict=True):
        yield PhaseView(
            phase=phase.name,
            attempt=run.attempt,
            started_at=iso_utc(phase.started_at),
            ended_at=iso_utc_or_none(end),
            # The clocks of workers differ.
            elapsed_ms=max((now if end is None else end) - phase.started_at, 0),
            interruption=run.interruption if phase is run.phases[-1] else None,
        )
