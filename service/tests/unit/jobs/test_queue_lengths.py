"""When the length of a queue is remembered instead of counted."""

from agentjobs.jobs.queue.lengths import QueueLengths


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_long_queue_is_remembered_for_a_second() -> None:
    clock = Clock()
    lengths = QueueLengths(1_000, clock)
    assert lengths.get("org_a") is None
    lengths.set("org_a", 80)
    lengths.add("org_a", 2)
    clock.now = 0.9
    assert lengths.get("org_a") == 82
    assert lengths.get("org_b") is None
    clock.now = 1.1
    assert lengths.get("org_a") is None


def test_created_jobs_do_not_prolong_the_second() -> None:
    clock = Clock()
    lengths = QueueLengths(1_000, clock)
    lengths.set("org_a", 80)
    clock.now = 0.9
    lengths.add("org_a", 1)
    clock.now = 1.1
    assert lengths.get("org_a") is None


def test_a_short_queue_is_always_counted() -> None:
    lengths = QueueLengths(1_000)
    lengths.set("org_a", 80)
    lengths.set("org_a", 49)
    lengths.add("org_a", 10)
    assert lengths.get("org_a") is None


def test_a_queue_near_the_limit_is_always_counted() -> None:
    lengths = QueueLengths(200)
    lengths.set("org_a", 99)
    lengths.add("org_a", 1)
    assert lengths.get("org_a") == 100
    lengths.add("org_a", 1)
    assert lengths.get("org_a") is None
