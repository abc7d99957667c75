from agentjobs_worker.loops.claim_limits import RecentOrganizations
from tests.support.manual_clock import ManualClock


def test_organizations_are_recent_for_two_seconds() -> None:
    clock = ManualClock()
    recent = RecentOrganizations(clock)
    recent.add("a", clock(), has_failed=False)
    clock.now += 1
    recent.add("b", clock(), has_failed=False)
    clock.now += 0.9
    assert recent.without(["b"]) == {"a"}
    clock.now += 0.2
    assert recent.without([]) == {"b"}
    assert recent.postponed([]) == frozenset()


def test_organizations_whose_jobs_fail_at_once_are_postponed_while_others_are_served() -> None:
    clock = ManualClock()
    recent = RecentOrganizations(clock)
    recent.add("a", clock(), has_failed=True)
    recent.add("slow", clock() - 5, has_failed=True)
    assert recent.postponed([]) == {"a"}
    clock.now += 0.6
    assert recent.postponed([]) == frozenset()
    clock.now += 2
    recent.add("a", clock(), has_failed=True)
    assert recent.postponed(["a"]) == frozenset()
    assert recent.postponed(["b"]) == {"a"}
