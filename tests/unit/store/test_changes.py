import logging

import pytest

from agentjobs.store.changes import Changes


async def test_a_signal_is_set_only_by_its_topics() -> None:
    changes = Changes()
    with changes.listen("jobs", "index") as signal:
        changes.publish("keys")
        assert not await signal.wait(0)
        changes.publish("index")
        assert await signal.wait(0.1)
        assert not await signal.wait(0)


async def test_announcements_before_the_wait_are_not_missed() -> None:
    changes = Changes()
    with changes.listen("jobs") as signal:
        changes.publish("jobs")
        changes.publish("jobs")
        assert await signal.wait(0.1)
        assert not await signal.wait(0)


async def test_everything_wakes_all_subscribers() -> None:
    changes = Changes()
    dropped: list[str] = []
    changes.on("keys", lambda: dropped.append("keys"))
    changes.on("repos", lambda: dropped.append("repos"))
    with changes.listen("job:1") as signal:
        changes.publish("*")
        assert await signal.wait(0.1)
    assert dropped == ["keys", "repos"]


async def test_unsubscribing_stops_callbacks_and_frees_the_topic() -> None:
    changes = Changes()
    heard: list[str] = []
    stop = changes.on("keys", lambda: heard.append("keys"))
    stop()
    stop()
    with changes.listen("job:1"):
        pass
    changes.publish("keys", "job:1", "*")
    assert heard == []
    assert changes._callbacks == {}


async def test_the_same_callback_may_listen_twice_and_stop_once() -> None:
    changes = Changes()
    heard: list[int] = []

    def callback() -> None:
        heard.append(1)

    stop = changes.on("keys", callback)
    changes.on("keys", callback)
    stop()
    changes.publish("keys")
    assert heard == [1]


async def test_a_failing_subscriber_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    changes = Changes()
    heard: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    changes.on("keys", fail)
    changes.on("keys", lambda: heard.append(1))
    with caplog.at_level(logging.ERROR):
        changes.publish("keys")
    assert heard == [1]
    assert "subscriber" in caplog.text
