"""Phases of jobs, written directly to the store, as if their agents had worked for minutes."""

import sqlite3
from contextlib import closing
from pathlib import Path

from agentjobs.jobs.phases import Interruption, PhaseName, StoredPhase, StoredRun, encode_runs
from agentjobs_runtime.clock import now_ms

_DURATIONS_MS: dict[PhaseName, int] = {
    "queued": 2_600,
    "prepare": 1_800,
    "environment": 9_000,
    "agent": 184_000,
    "checks": 41_000,
    "push": 900,
    "pull_request": 1_100,
}


def write_phases(data_dir: Path, completed: str, failed: str) -> None:
    """The second attempt of `failed` fails in its checks."""
    start = now_ms() - sum(_DURATIONS_MS.values())
    lost = _run(1, start - sum(_DURATIONS_MS.values()), "agent", "worker_lost")
    runs = {
        completed: [_run(1, start, "pull_request")],
        failed: [lost, _run(2, start, "checks")],
    }
    with closing(sqlite3.connect(data_dir / "agentjobs.db", timeout=30)) as database, database:
        for job_id, stored in runs.items():
            database.execute(
                "UPDATE jobs SET phases = ?, created_at = ?, queued_at = ?, started_at = ?,"
                " completed_at = ? WHERE id = ?",
                (encode_runs(stored), start, *_times(stored[-1]), job_id),
            )


def _times(run: StoredRun) -> tuple[int | None, ...]:
    """When it was queued, when its agent started, and when it ended."""
    started = next(phase.started_at for phase in run.phases if phase.name == "agent")
    return run.phases[0].started_at, started, run.ended_at


def _run(
    attempt: int, start: int, last: PhaseName, interruption: Interruption | None = None
) -> StoredRun:
    phases, at = [], start
    for name, duration_ms in _DURATIONS_MS.items():
        phases.append(StoredPhase(name, at))
        at += duration_ms
        if name == last:
            break
    return StoredRun(attempt, tuple(phases), at, interruption)
