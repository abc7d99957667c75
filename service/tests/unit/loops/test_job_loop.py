"""How a stopped job ends when its agent's work is done but not published, and idle slots."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from agentjobs.publishing.context import FinishedWork
from agentjobs.store.changes import Changes, Signal
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.protocol.claimed_job import LOCAL
from agentjobs_runtime.protocol.messages import JOBS_TOPIC, ClaimedJobs, ClaimJobs, FinishJob
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    Cancelled,
    Kept,
    KeptWork,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_worker.loops import job_loop
from agentjobs_worker.loops.claim_limits import LoadControl
from agentjobs_worker.loops.job_loop import JobLoop, _ActiveJob
from agentjobs_worker.run.context import RunContext
from service.tests.unit.jobs.test_plan import JOB
from tests.support.manual_clock import ManualClock

KEPT = Kept(KeptWork("1" * 40, "2" * 40, b"bundle"))


async def stopped(
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    work: FinishedWork | None,
    kept: Kept | None = KEPT,
) -> tuple[_ActiveJob, Outcome]:
    """A job that is stopped while it publishes its work."""
    publishes = asyncio.Event()

    async def run_job(run: RunContext) -> Outcome:
        run.finished_work = work
        publishes.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def pack(_: RunContext, __: FinishedWork) -> Kept:
        if kept is None:
            raise UnsafeChange("unsafe_change", "too large")
        return kept

    monkeypatch.setattr(job_loop, "run_job", run_job)
    monkeypatch.setattr(job_loop, "pack_work", pack)
    tools: Any = SimpleNamespace(service=None)
    log: Any = Mock()
    active = _ActiveJob(JOB, 0)
    running = asyncio.create_task(active.run(tools, log))
    await publishes.wait()
    active.stop(outcome)
    return active, await running


async def test_a_drained_worker_keeps_finished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    work = FinishedWork("1" * 40, "2" * 40)
    assert (await stopped(monkeypatch, Released(), work))[1] == KEPT
    assert (await stopped(monkeypatch, Released(), None))[1] == Released()


async def test_a_drained_worker_says_that_it_cannot_keep_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = FinishedWork("1" * 40, "2" * 40)
    active, outcome = await stopped(monkeypatch, Released(), work, None)
    assert outcome == Released()
    assert active._run is not None
    active._run.log.note.assert_called_with("the work cannot be kept: too large")


async def test_a_cancelled_job_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = FinishedWork("1" * 40, "2" * 40)
    assert (await stopped(monkeypatch, Cancelled(), work))[1] == Cancelled()


async def test_a_worker_that_lost_its_claim_can_hand_over_finished_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = FinishedWork("1" * 40, "2" * 40)
    active, outcome = await stopped(monkeypatch, Abandoned(), work)
    assert outcome == Abandoned()
    assert await active.keep_work() == KEPT


NOTHING = ClaimedJobs([], may_find_more=False)
Claim = Callable[[ClaimJobs], ClaimedJobs]


class FakeLink:
    def __init__(self, changes: Changes, claim: Claim) -> None:
        self.changes = changes
        self._claim = claim

    async def call(self, request: Any) -> Any:
        match request:
            case ClaimJobs():
                return self._claim(request)
            case FinishJob(outcome=outcome):
                return not isinstance(outcome, Abandoned)
        raise AssertionError(request)


def _loop(
    claim: Claim = lambda _: NOTHING,
    changes: Changes | None = None,
    create_sandboxes: Callable[[Iterable[int]], None] = lambda _: None,
) -> JobLoop:
    settings = SimpleNamespace(max_job_log_bytes=0, lease_seconds=0)
    sandboxes = SimpleNamespace(create=create_sandboxes)
    link = FakeLink(changes or Changes(), claim)
    tools: Any = SimpleNamespace(link=link, settings=settings, spare_sandboxes=sandboxes)
    worker: Any = SimpleNamespace(
        id="wrk_1",
        tags=(),
        location="",
        slots=2,
        agents=["agent"],
        sandbox_problem="",
        extra_lease_seconds=7.0,
    )
    free_space: Any = SimpleNamespace(is_low=False)
    return JobLoop(tools, worker, free_space)


async def test_sandboxes_are_created_ahead_when_no_job_waits() -> None:
    stopping = asyncio.Event()
    created_for: list[int] = []

    def create(slots: Iterable[int]) -> None:
        created_for.extend(slots)
        stopping.set()

    await _loop(create_sandboxes=create).run(stopping)
    assert sorted(created_for) == [0, 1]


@pytest.mark.parametrize(("may_find_more", "looks"), [(True, 2), (False, 1)])
async def test_a_worker_looks_again_only_if_its_claim_may_have_left_something(
    monkeypatch: pytest.MonkeyPatch, may_find_more: bool, looks: int
) -> None:
    stopping, counted = asyncio.Event(), 0

    def claim(_: ClaimJobs) -> ClaimedJobs:
        nonlocal counted
        counted += 1
        return ClaimedJobs([JOB], may_find_more) if counted == 1 else NOTHING

    async def wait(_: Signal, _seconds: float) -> bool:
        stopping.set()
        return False

    monkeypatch.setattr(JobLoop, "_start", lambda *_: None)
    monkeypatch.setattr(Signal, "wait", wait)
    await _loop(claim).run(stopping)
    assert counted == looks


async def test_a_job_that_is_announced_during_a_look_causes_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes, stopping, counted = Changes(), asyncio.Event(), 0

    def claim(_: ClaimJobs) -> ClaimedJobs:
        nonlocal counted
        counted += 1
        if counted == 2:
            stopping.set()
        changes.publish(JOBS_TOPIC)
        return NOTHING

    monkeypatch.setattr(job_loop, "_POLL_SECONDS", 600)
    async with asyncio.timeout(30):
        await _loop(claim, changes).run(stopping)


async def test_a_worker_that_is_cut_off_from_a_platform_leaves_jobs_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away, claims = Unreachable(Outage(LOCAL, "away")), 0

    async def run(*_: object) -> Outcome:
        return away

    def claim(_: ClaimJobs) -> ClaimedJobs:
        nonlocal claims
        claims += 1
        return NOTHING

    monkeypatch.setattr(_ActiveJob, "run", run)
    monkeypatch.setattr(job_loop, "LogWriter", lambda *_, **__: contextlib.nullcontext())
    loop = _loop(claim)
    # A second job that did not have to wait: another worker has reached the platform since.
    for claims_before in (1, 1):
        loop._start(JOB)
        await loop.wait_until_idle()
        await loop._claim(frozenset(), frozenset())
        assert claims == claims_before


async def test_a_worker_that_lost_a_lease_claims_less_and_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, claims = ManualClock(), list[tuple[int, float]]()

    async def run(*_: object) -> Outcome:
        return Abandoned()

    def claim(request: ClaimJobs) -> ClaimedJobs:
        claims.append((request.count, request.extra_lease_seconds))
        return NOTHING

    monkeypatch.setattr(_ActiveJob, "run", run)
    monkeypatch.setattr(job_loop, "LogWriter", lambda *_, **__: contextlib.nullcontext())
    loop = _loop(claim)
    loop._load = LoadControl(2, clock)
    await loop._claim(frozenset(), frozenset())
    clock.now = time.monotonic()
    loop._start(JOB)
    await loop.wait_until_idle()
    await loop._claim(frozenset(), frozenset())
    clock.now += 2
    await loop._claim(frozenset(), frozenset())
    # Nothing during the pause, then one job at a time.
    assert claims == [(2, 7.0), (1, 7.0)]
