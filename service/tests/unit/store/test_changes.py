import asyncio
import logging

import pytest

from agentjobs.store.changes import Changes


async def _timer(seconds: float) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, ended.set)
    await ended.wait()


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
    assert changes._subscribers == {}


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


async def test_workers_take_up_work_of_another_process_one_after_the_other() -> None:
    fleet = [Changes() for _ in range(4)]
    for position, changes in enumerate(fleet):
        changes.workers, changes.position = len(fleet), position
    for number in range(8):
        delays = [changes._delay_seconds(number) for changes in fleet]
        order = sorted(range(4), key=delays.__getitem__)
        assert order == [(number + place) % 4 for place in range(4)]
        assert delays[order[0]] == 0
        assert len(set(delays)) == 4


async def test_a_process_without_a_worker_takes_up_work_after_all_workers() -> None:
    changes = Changes()
    changes.workers, changes.position = 50, None
    assert all(changes._delay_seconds(number) > 0.5 for number in range(50))
    assert all(changes._delay_seconds(number) < 1 for number in range(50))


async def test_a_look_covers_the_announcements_before_it() -> None:
    changes = Changes()
    changes.workers, changes.position = 50, 0
    with changes.listen("jobs", takes_work=True) as signal, changes.listen("jobs") as watcher:
        changes.publish("jobs", number=1)
        assert await watcher.wait(0)
        assert not await signal.wait(0)
        (subscriber,) = signal.subscribers
        assert subscriber.timer is not None
        signal.clear()
        assert subscriber.timer is None


async def test_an_earlier_turn_replaces_a_later_one() -> None:
    changes = Changes()
    changes.workers, changes.position = 50, 2
    with changes.listen("jobs", takes_work=True) as signal:
        changes.publish("jobs", number=3)
        changes.publish("jobs", number=2)
        assert await signal.wait(0)
        assert not await signal.wait(0)


async def test_work_of_this_process_is_taken_up_at_once() -> None:
    changes = Changes()
    changes.workers, changes.position = 50, 7
    with changes.listen("jobs", takes_work=True) as signal:
        changes.publish("jobs")
        assert await signal.wait(0)


async def test_a_single_process_takes_up_all_work_at_once() -> None:
    changes = Changes()
    with changes.listen("jobs", takes_work=True) as signal:
        changes.publish("jobs", number=7)
        assert await signal.wait(0)


async def test_an_unsubscribed_process_takes_up_nothing() -> None:
    changes = Changes()
    changes.workers, changes.position = 2, 1
    heard: list[str] = []
    stop = changes.on("jobs", lambda: heard.append("jobs"), takes_work=True)
    assert changes.is_taken_here("jobs")
    changes.publish("jobs", number=0)
    stop()
    # Its timer would run first: it was set earlier, for a time within 4 ms.
    await asyncio.wait_for(_timer(0.005), 5)
    assert heard == []
    assert not changes.is_taken_here("jobs")


def test_a_large_fleet_as_a_whole_polls_about_as_often_as_a_small_one() -> None:
    changes = Changes()
    assert changes.poll_seconds(1.0) == 1.0
    changes.processes = 8
    assert changes.poll_seconds(1.0) == 1.0
    changes.processes = 16
    assert 1.5 <= changes.poll_seconds(1.0) <= 2.5
    changes.processes = 50
    assert changes.poll_seconds(1.0, 2.5) < 3.2
    changes.live = False
    assert changes.poll_seconds(1.0) == 1.0
