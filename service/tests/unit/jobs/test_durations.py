import random

import pytest

from agentjobs.jobs.queue.durations import Durations, FinishedJob, draw_remaining_ms

CHANCE = random.Random(19)


def finished(agent: str, repo_id: str, *durations: int) -> list[FinishedJob]:
    return [FinishedJob(agent, repo_id, duration) for duration in durations]


def test_the_most_specific_durations_count() -> None:
    durations = Durations(
        [
            *finished("fixer", "shop", 50, 10, 30, 20, 40),
            *finished("fixer", "blog", 1, 2, 3, 4),
            *finished("coder", "shop", 900),
        ]
    )
    assert durations.of("fixer", "shop") == [10, 20, 30, 40, 50]
    # Four of one repository say too little.
    assert durations.of("fixer", "blog") == durations.of("fixer")
    assert len(durations.of("fixer")) == 9
    assert durations.of("coder") == [900]


def test_an_unknown_agent_is_expected_to_take_as_long_as_the_others() -> None:
    assert Durations(finished("fixer", "shop", 7)).of("coder") == [7]
    assert list(Durations().of("coder")) == [60_000]


def test_only_the_last_hundred_of_an_agent_count() -> None:
    durations = Durations(finished("fixer", "shop", *range(1_000)))
    assert durations.of("fixer") == list(range(100))


@pytest.mark.parametrize(
    ("elapsed_ms", "expected"), [(0, {10, 20, 30}), (10, {10, 20}), (15, {5, 15}), (29, {1})]
)
def test_a_running_job_goes_on_like_those_that_took_longer(
    elapsed_ms: int, expected: set[int]
) -> None:
    drawn = {draw_remaining_ms([10, 20, 30], elapsed_ms, CHANCE) for _ in range(100)}
    assert drawn == expected


def test_a_job_that_takes_longer_than_any_before_goes_on_for_as_long_again() -> None:
    drawn = sorted(draw_remaining_ms([10, 20, 30], 1_000, CHANCE) for _ in range(999))
    assert drawn[0] >= 0
    assert 900 < drawn[499] < 1_100
