"""Forecasts of starts. All jobs take a second here, so that the results are exact."""

from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.jobs.queue.durations import Durations, FinishedJob
from agentjobs.jobs.queue.forecast import forecast_starts
from agentjobs.jobs.queue.queue_model import Arrivals, Backlog, NewJobs, Pool, Queue, RunningJob
from agentjobs.jobs.queue.waiting_organizations import Waiting, share_slots

SECOND = 1_000
FIXER = frozenset({"fixer"})
A_SECOND = Durations([FinishedJob("fixer", "shop", SECOND)] * 5)


def running(
    organization_id: str = "other", elapsed_ms: int = 0, pool: int | None = 0, **fields: Any
) -> RunningJob:
    job = {"agent": "fixer", "repo_id": "blog", **fields}
    return RunningJob(organization_id=organization_id, elapsed_ms=elapsed_ms, pool=pool, **job)


def forecast(
    *jobs: RunningJob,
    slots: int = 1,
    waiting: int = 0,
    others: dict[str, int] | None = None,
    queue: dict[str, Any] | None = None,
    max_events: int = 1_000,
    **new: Any,
) -> list[int]:
    """Of a job of the organization `own`, behind `waiting` others of it."""
    backlogs = {name: Backlog({"fixer": count}) for name, count in (others or {}).items()}
    if waiting:
        backlogs["own"] = Backlog({"fixer": waiting})
    fields: dict[str, Any] = {
        "pools": [Pool(slots, FIXER)],
        "running": jobs,
        "backlogs": backlogs,
        "limits": dict.fromkeys(("other", *backlogs), 50),
        "durations": A_SECOND,
        **(queue or {}),
    }
    jobs_created: dict[str, Any] = {
        "organization_id": "own",
        "limit": 50,
        "agent": "fixer",
        "ahead": waiting,
        **new,
    }
    return forecast_starts(Queue(**fields), NewJobs(**jobs_created), max_events)


def test_a_free_slot_means_no_wait() -> None:
    assert forecast(slots=2) == [0]
    assert forecast(running(), slots=2) == [0]


def test_a_job_waits_for_the_rest_of_a_running_one() -> None:
    assert forecast(running(elapsed_ms=300)) == [700]
    assert forecast(running(elapsed_ms=300), running(elapsed_ms=600), slots=2) == [400]


@pytest.mark.parametrize(("waiting", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)])
def test_jobs_of_the_organization_that_wait_come_first(waiting: int, seconds: int) -> None:
    assert forecast(running(), running(), slots=2, waiting=waiting) == [seconds * SECOND]


def test_the_plan_delays_a_job_even_when_workers_are_free() -> None:
    assert forecast(running("own"), slots=50, limit=1) == [SECOND]
    assert forecast(running("own"), slots=50, limit=1, waiting=2) == [3 * SECOND]


def test_a_new_organization_is_served_before_one_that_fills_the_queue() -> None:
    assert forecast(running(), others={"other": 100}) == [SECOND]


def test_organizations_with_as_few_active_jobs_take_turns() -> None:
    (start,) = forecast(running(), others={"a": 3, "b": 3}, waiting=1)
    # Three organizations: after the second turn of each of the others at the latest.
    assert 4 * SECOND <= start <= 6 * SECOND


def test_jobs_that_their_plan_holds_back_delay_nobody() -> None:
    held = {"limits": {"other": 1}}
    assert forecast(running(), slots=2, others={"other": 10}, queue=held) == [0]


def test_only_workers_that_can_run_the_agent_count() -> None:
    pools = {"pools": [Pool(5, frozenset({"coder"})), Pool(1, FIXER)]}
    assert forecast(running(pool=1), queue=pools) == [SECOND]


def test_only_workers_with_the_required_tags_count() -> None:
    gpu = frozenset({"gpu"})
    pools = {"pools": [Pool(5, FIXER), Pool(1, FIXER, gpu)]}
    assert forecast(running(pool=1), queue=pools, tags=gpu) == [SECOND]
    assert forecast(running(pool=1), queue=pools) == [0]


def test_jobs_that_no_worker_can_run_delay_nobody() -> None:
    backlogs = {"backlogs": {"own": Backlog({"coder": 9})}, "limits": {}}
    assert forecast(queue=backlogs, ahead=9) == [0]


def test_jobs_of_a_lower_priority_come_later() -> None:
    assert forecast(running(), waiting=9, ahead=1) == [2 * SECOND]


def test_limits_of_agents_and_repositories_hold_jobs_back() -> None:
    agents = {"agent_limits": {"fixer": 1}}
    assert forecast(running(elapsed_ms=400), slots=9, queue=agents) == [600]
    repos = {"repo_limits": {"shop": 1}}
    job = running("own", elapsed_ms=400, repo_id="shop")
    assert forecast(job, slots=9, queue=repos, count=2, repo_id="shop") == [600, 1_600]
    assert forecast(running("own"), slots=9, queue=repos, repo_id="shop") == [0]


def test_jobs_on_workers_that_stop_keep_their_place_in_the_plan_only() -> None:
    assert forecast(running("own", pool=None)) == [0]
    assert forecast(running("own", pool=None), limit=1) == [SECOND]


def test_jobs_that_ended_since_the_queue_was_read_are_not_waited_for() -> None:
    assert forecast(running("own"), ended=1) == [0]


def test_several_new_jobs_start_one_after_the_other() -> None:
    assert forecast(count=4, slots=2) == [0, 0, SECOND, SECOND]


def test_jobs_of_others_that_will_be_created_come_in_between() -> None:
    # One per second for two slots: about half of them.
    arrivals = {"arrivals": Arrivals([("other", "fixer")] * 60, 60 * SECOND)}
    (alone,) = forecast(slots=2, waiting=60)
    (contended,) = forecast(slots=2, waiting=60, queue=arrivals)
    assert alone == 30 * SECOND
    assert 45 * SECOND < contended < 65 * SECOND


def test_later_jobs_of_the_same_organization_do_not_come_in_between() -> None:
    durations = [*[FinishedJob("fixer", "r", SECOND)] * 5, *[FinishedJob("coder", "r", 99_000)] * 5]
    queue = {
        "pools": [Pool(2, frozenset({"fixer", "coder"}))],
        "arrivals": Arrivals([("own", "coder")] * 60, 60 * SECOND),
        "durations": Durations(durations),
    }
    assert forecast(waiting=60, queue=queue) == [30 * SECOND]


def test_among_equals_the_organization_comes_first_whose_last_claim_is_longer_ago() -> None:
    jobs = [running("own", 100), running("other", 900), running("third", 950)]
    backlogs = {"backlogs": {"other": Backlog({"fixer": 1}, idle_ms=900)}}
    # The slot of the third goes to the other organization.
    assert forecast(*jobs, slots=3, queue=backlogs) == [100]


def test_a_long_queue_is_extrapolated() -> None:
    (start,) = forecast(waiting=100_000, slots=10)
    assert start == pytest.approx(10_000 * SECOND, rel=0.1)


def test_a_forecast_is_the_same_every_time() -> None:
    spread = Durations([FinishedJob("fixer", "shop", ms) for ms in (100, 900, 2_000, 40, 500)])
    results = {tuple(forecast(running(), waiting=5, queue={"durations": spread})) for _ in "abc"}
    assert len(results) == 1


def test_the_first_of_many_running_jobs_ends_long_before_a_typical_one() -> None:
    spread = Durations([FinishedJob("fixer", "shop", ms * SECOND) for ms in range(1, 101)])
    jobs = [running() for _ in range(20)]
    (start,) = forecast(*jobs, slots=20, queue={"durations": spread})
    assert SECOND <= start < 10 * SECOND


def starts_by_claims(
    slots: int, waiting: dict[str, int], limits: dict[str, int], organization_id: str
) -> list[int]:
    """When the organization starts its jobs, if workers claim them and each takes a second."""
    now, last_claimed, active = 0, Counter[str](), Counter[str]()
    starts = []
    ends: deque[tuple[int, str]] = deque()
    while waiting[organization_id]:
        shares = share_slots(
            [
                Waiting(each, limits[each], active[each], last_claimed[each])
                for each, count in waiting.items()
                if count
            ],
            1 if len(ends) < slots else 0,
        )
        for each in shares:
            waiting[each] -= 1
            active[each] += 1
            last_claimed[each] = now
            ends.append((now + SECOND, each))
            starts += [now] * (each == organization_id)
        if not shares:
            now, ended = ends.popleft()
            active[ended] -= 1
    return starts


@given(
    slots=st.integers(1, 4),
    waiting=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    limits=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    ahead=st.integers(1, 5),
)
def test_slots_are_shared_as_workers_share_them(
    slots: int, waiting: list[int], limits: list[int], ahead: int
) -> None:
    others = dict(zip("abc", waiting, strict=True))
    own_limit, limit_of = limits[0], dict(zip("abc", limits, strict=True))
    (start,) = forecast(
        slots=slots,
        waiting=ahead,
        others={name: count for name, count in others.items() if count},
        queue={"limits": limit_of},
        limit=own_limit,
    )
    claims = starts_by_claims(
        slots, {**others, "own": ahead + 1}, {**limit_of, "own": own_limit}, "own"
    )
    assert start == claims[-1]
