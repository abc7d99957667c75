"""The estimate of a receipt, from a state of the fleet and what the creation itself has read."""

from typing import Any

import pytest

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queue import estimate as module
from agentjobs.jobs.queue.acceptance import Admission
from agentjobs.jobs.queue.durations import Durations, FinishedJob
from agentjobs.jobs.queue.estimate import WaitingJob, estimate_start, estimate_waiting
from agentjobs.jobs.queue.fleet import FleetState, LiveWorker, build_pools
from agentjobs.jobs.queue.queue_model import Backlog, NewJobs, Queue, RunningJob
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.plans import Plans
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

SECOND = 1_000
NOW = 1_000_000
PLANS = Plans(DEFAULT_PLANS)
A_SECOND = Durations([FinishedJob("fixer", "shop", SECOND)] * 5)


def fleet(
    *running: RunningJob, slots: int = 2, paused_at: int | None = None, **queue: Any
) -> FleetState:
    worker = LiveWorker("wrk_a", slots, frozenset(), frozenset({"fixer"}), frozenset())
    workers = [worker] if slots else []
    pools, _ = build_pools(workers)
    fields: dict[str, Any] = {"backlogs": {}, "limits": {}, "durations": A_SECOND, **queue}
    return FleetState.of(
        workers, Queue(pools=pools, running=running, **fields), paused_at=paused_at
    )


def running(organization_id: str = "own", elapsed_ms: int = 0) -> RunningJob:
    return RunningJob(organization_id, "fixer", "shop", 0, elapsed_ms)


def estimate(
    state: FleetState,
    *,
    plan: str = "enterprise",
    queued: int = 0,
    active: int = 0,
    paused_at: int | None = None,
    priority: str | None = None,
) -> int:
    override: Any = None if priority is None else {"priority": priority}
    return estimate_start(
        PLANS,
        Caller("own", "own", plan, "key_1", "jobs", git_write=False),
        state,
        Admission("shop", "ready", None, None, queued, active, paused_at),
        CreateJobRequest("acme/shop", "fixer", config_override=override),
        NOW,
    )


def test_a_free_slot_means_no_wait() -> None:
    state = fleet()
    assert estimate(state) == 0
    assert estimate(fleet(running()), active=1) == 0
    assert not state.forecasts


def test_behind_a_job_of_the_free_plan_the_rest_of_that_job_counts() -> None:
    state = fleet(running(elapsed_ms=400), slots=50)
    assert estimate(state, plan="free", active=1) == 600
    assert estimate(state, plan="pro", active=1) == 0


def test_jobs_created_and_started_since_the_state_was_read_count() -> None:
    state = fleet(slots=2)
    assert [estimate(state, queued=n) for n in range(5)] == [0, 0, 1_000, 1_000, 2_000]
    assert [estimate(state, active=n, queued=1) for n in range(3)] == [0, 1_000, 1_000]
    assert estimate(state, plan="free", active=1) == SECOND


def test_jobs_that_ended_since_the_state_was_read_do_not_count() -> None:
    assert estimate(fleet(running(), slots=1), plan="free") == 0


def test_many_jobs_of_a_burst_need_few_forecasts() -> None:
    state = fleet()
    estimates = [estimate(state, queued=n) for n in range(200)]
    assert estimates == sorted(estimates)
    assert estimates[-1] == 99 * SECOND
    assert len(state.forecasts) < 10


def test_many_forecasts_of_one_state_become_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[int] = []

    def forecast(_queue: Queue, _new: object, max_events: int) -> list[int]:
        budgets.append(max_events)
        return [0]

    monkeypatch.setattr(module, "forecast_starts", forecast)
    state = fleet(*(running("other") for _ in range(2)))
    for number in range(200):
        estimate_start(
            PLANS,
            Caller(f"org_{number}", "x", "free", "key_1", "jobs", git_write=False),
            state,
            Admission("shop", "ready", None, None, 0, 0, None),
            CreateJobRequest("acme/shop", "fixer"),
            NOW,
        )
    assert (budgets[0], budgets[15], budgets[16], budgets[32]) == (400, 400, 200, 100)
    assert budgets[-1] == 50


@pytest.mark.parametrize(
    ("priority", "seconds"), [("high", 1), (None, 3), ("normal", 3), ("low", 5)]
)
def test_a_job_waits_for_those_before_its_priority(priority: str | None, seconds: int) -> None:
    before = {"high": 0, "normal": 2, "low": 4}
    state = fleet(running("other"), slots=1, backlogs={"own": Backlog({"fixer": 4}, before)})
    assert estimate(state, queued=4, priority=priority) == seconds * SECOND


def test_without_workers_every_job_ahead_counts() -> None:
    assert estimate(fleet(slots=0), queued=3) == 4 * SECOND


@pytest.mark.parametrize(("paused_ms", "expected"), [(0, 1_000), (9_000, 9_000)])
def test_a_pause_is_expected_to_last_as_long_again(paused_ms: int, expected: int) -> None:
    paused = fleet(slots=1, paused_at=NOW - paused_ms)
    assert estimate(paused) == expected
    assert estimate(fleet(slots=1), paused_at=NOW - paused_ms) == expected
    busy = fleet(running("other"), slots=1, paused_at=NOW - paused_ms)
    assert estimate(busy) == expected + SECOND


def waiting(ahead: int, **fields: Any) -> WaitingJob:
    job: dict[str, Any] = {"limit": 50, "tags": (), "active": 0, "paused_at": None, **fields}
    return WaitingJob(organization_id="own", agent="fixer", ahead=ahead, **job)


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 5, 11, 39, 40])
def test_a_waiting_job_is_estimated_by_its_place(ahead: int) -> None:
    state = fleet(running("other"), slots=1, backlogs={"own": Backlog({"fixer": 41}, {})})
    assert estimate_waiting(state, waiting(ahead), NOW) == (ahead + 1) * SECOND


def test_the_places_of_many_waiting_jobs_need_few_forecasts() -> None:
    state = fleet(running("other"), backlogs={"own": Backlog({"fixer": 500}, {})})
    estimates = [estimate_waiting(state, waiting(ahead), NOW) for ahead in range(500)]
    assert estimates == sorted(estimates)
    assert len(state.forecasts) < 25


def test_a_waiting_job_waits_for_one_that_was_claimed_since_the_state_was_read() -> None:
    state = fleet(slots=1, backlogs={"own": Backlog({"fixer": 2}, {})})
    assert estimate_waiting(state, waiting(1), NOW) == SECOND
    assert estimate_waiting(state, waiting(0, active=1), NOW) == SECOND
    assert estimate_waiting(fleet(slots=1), waiting(0, active=1), NOW) == SECOND


def test_a_waiting_job_starts_once_the_job_before_it_has_ended() -> None:
    state = fleet(running(), slots=9, backlogs={"own": Backlog({"fixer": 1}, {})})
    assert estimate_waiting(state, waiting(0, limit=1, active=1), NOW) == SECOND
    assert estimate_waiting(state, waiting(0, limit=1, active=0), NOW) == 0


def test_the_shortest_forecast_of_a_long_queue_is_close_as_well() -> None:
    state = fleet(running("other"), slots=1, backlogs={"own": Backlog({"fixer": 300}, {})})
    state.forecasts.update(
        {NewJobs(organization_id=str(n), limit=1, agent="x"): [0] for n in range(999)}
    )
    assert estimate_waiting(state, waiting(256), NOW) == pytest.approx(257 * SECOND, rel=0.1)
