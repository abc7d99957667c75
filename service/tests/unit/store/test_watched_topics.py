from agentjobs.store.postgresql.watched_topics import WatchedTopics


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _watched(clock: Clock) -> WatchedTopics:
    """After the time in which everything counts as watched."""
    watched = WatchedTopics(clock)
    clock.now += 16
    return watched


def test_everything_is_sent_until_others_have_said_what_they_watch() -> None:
    clock = Clock()
    watched = WatchedTopics(clock)
    assert watched.select({"job:1", "jobs"}) == {"job:1", "jobs"}
    clock.now += 16
    assert watched.select({"job:1", "jobs"}) == {"jobs"}
    watched.forget()
    assert watched.select({"job:1", "jobs"}) == {"job:1", "jobs"}


def test_a_topic_is_sent_while_somebody_watches_it() -> None:
    clock = Clock()
    watched = _watched(clock)
    watched.add({"job:1"})
    assert watched.select({"job:1", "job:2"}) == {"job:1"}
    clock.now += 20
    assert watched.select({"job:1"}) == {"job:1"}
    clock.now += 10
    assert watched.select({"job:1"}) == set()


def test_a_change_just_before_somebody_watched_is_sent_then() -> None:
    clock = Clock()
    watched = _watched(clock)
    watched.select({"job:1", "job:2"})
    clock.now += 1
    assert watched.add({"job:1", "job:3"}) == {"job:1"}
    assert watched.add({"job:1"}) == set()
    clock.now += 2
    assert watched.add({"job:2"}) == set()
