"""A worker that does not reach a platform which others reach leaves the jobs to them."""

import msgspec

from agentjobs_runtime.protocol.claimed_job import LOCAL
from agentjobs_runtime.protocol.outcomes import Completed, Outage, Unreachable
from agentjobs_worker.loops.platform_reach import PlatformReach
from service.tests.unit.jobs.test_plan import JOB
from tests.support.manual_clock import ManualClock

AWAY = Unreachable(Outage(LOCAL, "away"))
DONE = Completed("http://x/1", 1, "2" * 40, draft=False)
WAITED = msgspec.structs.replace(JOB, has_outage=True)


def pause_of(reach: PlatformReach, clock: ManualClock) -> float:
    began_at = clock.now
    while reach.is_paused:
        clock.now += 1
    return clock.now - began_at


def test_a_worker_pauses_when_others_have_reached_the_platform_since() -> None:
    clock = ManualClock()
    reach = PlatformReach(clock)
    reach.record(JOB, clock(), AWAY)
    assert pause_of(reach, clock) == 0
    pauses = []
    for _ in range(5):
        clock.now += 1
        # It did not wait: another worker has ended the outage.
        reach.record(JOB, clock(), AWAY)
        pauses.append(pause_of(reach, clock))
    assert pauses == [10, 20, 40, 60, 60]


def test_an_outage_for_all_workers_pauses_none() -> None:
    clock = ManualClock()
    reach = PlatformReach(clock)
    claimed_at = clock()
    clock.now += 1
    # Both were claimed before the outage was known.
    reach.record(JOB, claimed_at, AWAY)
    reach.record(JOB, claimed_at, AWAY)
    for _ in range(5):
        clock.now += 60
        reach.record(WAITED, clock(), AWAY)
    assert not reach.is_paused


def test_a_job_that_completes_ends_the_suspicion() -> None:
    clock = ManualClock()
    reach = PlatformReach(clock)
    for outcome in (AWAY, DONE, AWAY, Unreachable(Outage("trk_1", "a tracker"))):
        clock.now += 1
        reach.record(JOB, clock(), outcome)
    assert not reach.is_paused


def test_outages_of_different_days_pause_nothing() -> None:
    clock = ManualClock()
    reach = PlatformReach(clock)
    for _ in range(3):
        clock.now += 3_600
        reach.record(JOB, clock(), AWAY)
        assert not reach.is_paused
