"""Which phases of a job are shown, from its row alone."""

import pytest

from agentjobs.jobs.phases import (
    JobTimes,
    PhaseName,
    StoredPhase,
    StoredRun,
    current_phase,
    decode_runs,
    encode_runs,
    phase_views,
)
from agentjobs.jobs.states import JobStatus

NOW = 100_000


def run(attempt: int, *phases: tuple[PhaseName, int], **end: object) -> StoredRun:
    stored = tuple(StoredPhase(*phase) for phase in phases)
    return StoredRun(attempt, stored, **end)  # type: ignore[arg-type]


def times(
    status: JobStatus, *, claimed: bool = False, queued_at: int = 0, completed_at: int | None = None
) -> JobTimes:
    return JobTimes(status, claimed, queued_at, completed_at)


def shown(text: str | None, job: JobTimes) -> list[tuple[int, str, int, bool, str | None]]:
    return [
        (each.attempt, each.phase, each.elapsed_ms, each.ended_at is None, each.interruption)
        for each in phase_views(text, job, NOW)
    ]


def test_a_new_job_is_queued() -> None:
    job = times("queued", queued_at=NOW - 7)
    assert shown(None, job) == [(1, "queued", 7, True, None)]
    assert current_phase(None, job) == "queued"


def test_a_phase_ends_when_the_next_begins_and_the_last_with_its_run() -> None:
    text = encode_runs([run(1, ("queued", 0), ("prepare", 5), ("agent", 9), ended_at=30)])
    job = times("completed", completed_at=31)
    assert shown(text, job) == [
        (1, "queued", 5, False, None),
        (1, "prepare", 4, False, None),
        (1, "agent", 21, False, None),
    ]
    assert current_phase(text, job) is None


def test_a_running_job_is_in_its_last_phase() -> None:
    text = encode_runs([run(1, ("queued", 0), ("agent", NOW - 3))])
    assert shown(text, times("running", claimed=True))[-1] == (1, "agent", 3, True, None)
    assert current_phase(text, times("running", claimed=True)) == "agent"


def test_a_run_without_an_end_lost_its_worker() -> None:
    lost = run(1, ("queued", 0), ("agent", 10))
    again = times("queued", queued_at=50)
    assert shown(encode_runs([lost]), again) == [
        (1, "queued", 10, False, None),
        (1, "agent", 40, False, "worker_lost"),
        (2, "queued", NOW - 50, True, None),
    ]
    # The last run ends with its job, such as one that fails after too many lost workers.
    failed = times("failed", queued_at=50, completed_at=90)
    assert shown(encode_runs([lost]), failed)[-1] == (1, "agent", 80, False, None)


def test_a_claim_that_ended_before_its_agent_started_counts_as_waiting() -> None:
    text = encode_runs([run(1, ("queued", 0), ("prepare", 10), ("environment", 20))])
    waiting = times("queued")
    assert shown(text, waiting) == [(1, "queued", NOW, True, None)]
    assert current_phase(text, waiting) == "queued"
    assert current_phase(text, times("queued", claimed=True)) == "environment"


def test_a_job_that_was_cancelled_in_the_queue_was_only_queued() -> None:
    assert shown(None, times("cancelled", completed_at=8)) == [(1, "queued", 8, False, None)]


def test_a_job_that_an_older_version_runs_shows_no_phase() -> None:
    assert shown(None, times("running", claimed=True)) == []
    assert current_phase(None, times("running", claimed=True)) is None


def test_a_job_that_a_newer_version_runs_shows_no_phase() -> None:
    text = '[{"attempt": 1, "phases": [["queued", 0], ["review", 5]]}]'
    assert shown(text, times("running", claimed=True)) == []
    assert current_phase(text, times("running", claimed=True)) is None


def test_clocks_that_differ_give_no_negative_durations() -> None:
    text = encode_runs([run(1, ("queued", 50), ("prepare", 20), ended_at=10)])
    views = phase_views(text, times("failed", completed_at=60), NOW)
    assert [each.elapsed_ms for each in views] == [0, 0]


@pytest.mark.parametrize("again", ["prepare", "agent"])
def test_phases_only_move_forward(again: PhaseName) -> None:
    stored = run(1, ("queued", 0), ("agent", 10))
    assert stored.begin(again, 20) == stored
    assert stored.begin("push", 20).current == "push"


def test_only_the_last_runs_are_kept() -> None:
    runs = [run(number, ("queued", 0), ended_at=1) for number in range(1, 31)]
    kept = decode_runs(encode_runs(runs))
    assert [each.attempt for each in kept] == list(range(21, 31))
