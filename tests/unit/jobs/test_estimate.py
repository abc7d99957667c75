import pytest

from agentjobs.jobs.queue.estimate import QueueState, estimated_start_ms


def estimate(
    *,
    waiting: int = 0,
    active: int = 0,
    mine: int = 0,
    mine_active: int = 0,
    slots: int = 2,
    paused_ms: int | None = None,
) -> int:
    return estimated_start_ms(
        QueueState(waiting, active, mine, mine_active),
        slots=slots,
        organization_limit=5,
        typical_duration_ms=1_000,
        paused_ms=paused_ms,
    )


def test_a_free_slot_means_no_wait() -> None:
    assert estimate() == 0
    assert estimate(active=1) == 0
    assert estimate(waiting=1) == 0


@pytest.mark.parametrize(
    ("waiting", "active", "turns"), [(0, 2, 1), (1, 2, 1), (2, 2, 2), (3, 2, 2), (2, 0, 1)]
)
def test_busy_workers_delay_by_the_rounds_of_jobs_ahead(
    waiting: int, active: int, turns: int
) -> None:
    assert estimate(waiting=waiting, active=active) == turns * 1_000


def test_the_plan_delays_a_job_even_when_workers_are_free() -> None:
    assert estimate(active=5, mine_active=5, slots=50) == 1_000
    assert estimate(active=5, mine_active=5, mine=5, waiting=5, slots=50) == 2_000


def test_without_workers_every_job_ahead_counts() -> None:
    assert estimate(waiting=3, slots=0) == 4_000


@pytest.mark.parametrize(("paused_ms", "expected"), [(0, 1_000), (9_000, 9_000)])
def test_a_pause_is_expected_to_last_as_long_again(paused_ms: int, expected: int) -> None:
    assert estimate(paused_ms=paused_ms) == expected
    assert estimate(paused_ms=paused_ms, active=2) == expected + 1_000
