"""A worker on an overloaded machine runs fewer jobs at once."""

from agentjobs_runtime.protocol.outcomes import Abandoned, Completed, Failed, LostSandbox
from agentjobs_worker.loops.claim_limits import LoadControl
from tests.support.manual_clock import ManualClock

DONE = Completed("http://x/1", 1, "2" * 40, draft=False)
EXHAUSTED = LostSandbox(Failed("sandbox_error", "no processes"), is_host_exhausted=True)


def pause_of(load: LoadControl, clock: ManualClock) -> float:
    began_at = clock.now
    while not load.free(0):
        clock.now += 1
    return clock.now - began_at


def test_a_lost_lease_halves_the_jobs_at_once_and_each_that_ends_adds_one() -> None:
    clock = ManualClock()
    load = LoadControl(6, clock)
    assert load.free(2) == 4
    limits = []
    for _ in range(3):
        clock.now += 1
        load.record(clock(), Abandoned())
        clock.now += 10
        limits.append(load.free(0))
    assert limits == [3, 1, 1]
    assert load.free(1) == 0
    for _ in range(9):
        load.record(clock(), DONE)
    assert load.free(0) == 6


def test_time_without_a_loss_adds_jobs_although_none_ends() -> None:
    clock = ManualClock()
    load = LoadControl(4, clock)
    load.record(clock(), Abandoned())
    limits = []
    for _ in range(4):
        clock.now += 20
        limits.append(load.free(0))
    assert limits == [2, 3, 4, 4]


def test_a_machine_without_processes_gets_no_jobs_for_longer_and_longer() -> None:
    clock = ManualClock()
    load = LoadControl(4, clock)
    pauses = []
    for _ in range(8):
        load.record(clock(), EXHAUSTED)
        pauses.append(pause_of(load, clock))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    load.record(clock(), DONE)
    load.record(clock(), EXHAUSTED)
    assert pause_of(load, clock) == 1


def test_jobs_that_were_lost_together_count_once() -> None:
    clock = ManualClock()
    load = LoadControl(8, clock)
    claimed_at = clock()
    clock.now += 10
    for _ in range(8):
        load.record(claimed_at, Abandoned())
    assert pause_of(load, clock) == 1
    assert load.free(0) == 4


def test_a_sandbox_that_a_cluster_ended_and_a_failed_agent_say_nothing_about_this_machine() -> None:
    load = LoadControl(4, ManualClock())
    load.record(0, LostSandbox(Failed("sandbox_error", "evicted")))
    load.record(0, Failed("agent_failed", "exit code 1"))
    assert load.free(0) == 4
