"""How use is measured and watched, apart from any sandbox."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentjobs.sandbox.disk import MOST_LEVELS, DiskUsage, Walk
from agentjobs.sandbox.limits import FILE_BYTES, Limits, in_words
from agentjobs.sandbox.usage import CpuClock, ProcessStat
from agentjobs.sandbox.watchdog import MOST_FAILURES, UNWATCHED, Watchdog
from tests.support.sandbox import eventually

TICKS = os.sysconf("SC_CLK_TCK")


def process(own: int = 0, children: int = 0, started: int = 1) -> ProcessStat:
    """Seconds of CPU time, as a line of the kernel's; the name is a nasty one."""
    fields = ["S", *["0"] * 10, str(own * TICKS), "0", str(children * TICKS), "0"]
    return ProcessStat(
        f"7 (a) S 1) {' '.join([*fields, *['0'] * 4, str(started), '0', '3'])}".encode()
    )


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (4 * 1024**3, "4 GiB"),
        (1536 * 1024**2, "1536 MiB"),
        (1000, "1000 bytes"),
        (2048 * 1024**3, "2048 GiB"),
        (5 * 1024, "5 KiB"),
    ],
)
def test_a_size_is_told_in_its_largest_whole_unit(size: int, words: str) -> None:
    assert in_words(size) == words


def test_limits_are_told_in_words() -> None:
    limits = Limits(cpu_seconds=60)
    assert limits.memory_words == "4 GiB of memory"
    assert limits.workspace_words == "10 GiB in the workspace"
    assert limits.cpu_words == "60 seconds of CPU time"


def test_a_limit_of_zero_sets_no_rlimit() -> None:
    assert "ulimit -f" not in Limits(file_bytes=0).shell_commands()
    assert "ulimit -t" not in Limits(cpu_seconds=0).shell_commands()
    assert "ulimit -u" not in Limits(processes=0).shell_commands()
    assert "ulimit -u" not in Limits().shell_commands(own_user=False)


def test_resident_memory_is_read_in_pages() -> None:
    assert process().resident_bytes == 3 * os.sysconf("SC_PAGE_SIZE")


def test_cpu_time_is_that_of_the_living_and_of_children_they_waited_for() -> None:
    assert CpuClock().seconds({1: process(own=2), 2: process(own=3, children=4)}) == 9


def test_cpu_time_of_the_dead_is_not_lost_when_nobody_waited_for_them() -> None:
    clock = CpuClock()
    clock.seconds({1: process(own=1), 2: process(own=5)})
    assert clock.seconds({1: process(own=1)}) == 6
    assert clock.seconds({1: process(own=2)}) == 7


def test_cpu_time_of_the_dead_is_not_counted_twice_when_somebody_waited() -> None:
    clock = CpuClock()
    clock.seconds({1: process(own=1), 2: process(own=5)})
    assert clock.seconds({1: process(own=1, children=5)}) == 6


def test_a_number_used_again_is_another_process() -> None:
    clock = CpuClock()
    clock.seconds({2: process(own=5, started=1)})
    assert clock.seconds({2: process(own=1, started=9)}) == 6


def test_a_tree_is_added_up_without_links_and_linked_files_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(os.urandom(1_000_000))
    (tree / "deep" / "file").write_bytes(os.urandom(100_000))
    os.link(tree / "deep" / "file", tree / "same")
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "way-out").symlink_to(tmp_path)
    walk = Walk(threading.Event())
    walk.add(tree)
    assert 100_000 <= walk.used_bytes <= 120_000 + 5 * FILE_BYTES
    assert walk.saw_all


def test_a_tree_too_deep_to_be_seen_is_told(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (MOST_LEVELS + 2))
    deep.mkdir(parents=True)
    walk = Walk(threading.Event())
    walk.add(tmp_path)
    assert not walk.saw_all


def test_a_tree_that_is_not_there_is_empty(tmp_path: Path) -> None:
    walk = Walk(threading.Event())
    walk.add(tmp_path / "missing")
    assert (walk.used_bytes, walk.saw_all) == (0, True)


class StopsAt(threading.Event):
    """Set when it has been asked so often."""

    def __init__(self, questions: int) -> None:
        super().__init__()
        self.questions = questions

    def is_set(self) -> bool:
        self.questions -= 1
        return self.questions < 0


def test_a_walk_that_is_stopped_ends_at_the_next_file(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / str(number)).touch()
    walk = Walk(StopsAt(4))
    walk.add(tmp_path)
    assert walk.used_bytes == 4 * FILE_BYTES


def test_a_look_that_begins_when_it_is_stopped_walks_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    # So little that every look is worth a walk.
    limits = Limits(workspace_bytes=1)
    gauge = DiskUsage(limits, [tmp_path])
    assert gauge.look() == limits.workspace_words
    gauge.stop()
    assert gauge.look() is None


class ScriptedGauge:
    """Says what it was told to say, one after the other; then waits to be stopped."""

    def __init__(self, *words: str | OSError | None) -> None:
        self.words = list(words)
        self.is_waiting = threading.Event()
        self.is_stopped = threading.Event()
        self.is_closed = False

    def look(self) -> str | None:
        if not self.words:
            self.is_waiting.set()
            self.is_stopped.wait(10)
            return "too late"
        said = self.words.pop(0)
        if isinstance(said, OSError):
            raise said
        return said

    def stop(self) -> None:
        self.is_stopped.set()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def test_a_watchdog_barks_once_and_only_when_a_limit_is_passed(
    executor: ThreadPoolExecutor,
) -> None:
    barked: asyncio.Queue[str] = asyncio.Queue()
    gauge = ScriptedGauge(None, None, "4 GiB of memory", "again")
    watchdog = Watchdog(gauge, executor, barked.put_nowait)
    assert await asyncio.wait_for(barked.get(), 10) == "4 GiB of memory"
    await watchdog.stop()
    assert (gauge.words, barked.empty(), gauge.is_closed) == (["again"], True, True)


async def test_a_stopped_watchdog_waits_for_its_look_and_is_silent(
    executor: ThreadPoolExecutor,
) -> None:
    barked: list[str] = []
    gauge = ScriptedGauge()
    watchdog = Watchdog(gauge, executor, barked.append)
    await asyncio.to_thread(gauge.is_waiting.wait, 10)
    await watchdog.stop()
    assert gauge.is_closed
    assert barked == []


async def test_a_stopped_watchdog_does_not_wait_for_the_look_of_another(
    executor: ThreadPoolExecutor,
) -> None:
    long, queued = ScriptedGauge(), ScriptedGauge(None)
    first = Watchdog(long, executor, pytest.fail)
    await asyncio.to_thread(long.is_waiting.wait, 10)
    second = Watchdog(queued, executor, pytest.fail)
    await eventually(lambda: second._looking is not None)
    await asyncio.wait_for(second.stop(), 5)
    assert (queued.is_closed, queued.words) == (True, [None])
    await first.stop()
    executor.submit(str).result(10)
    assert queued.words == [None]


async def test_waiting_for_the_look_of_another_does_not_make_the_next_one_late(
    executor: ThreadPoolExecutor,
) -> None:
    barked: asyncio.Queue[str] = asyncio.Queue()
    others = threading.Event()
    executor.submit(others.wait, 10)
    watchdog = Watchdog(ScriptedGauge(None, "4 GiB of memory"), executor, barked.put_nowait)
    await eventually(lambda: watchdog._looking is not None)
    # A rest of ten times that would be longer than the patience below.
    heard = asyncio.ensure_future(barked.get())
    await asyncio.wait({heard}, timeout=1)
    others.set()
    assert await asyncio.wait_for(heard, 5) == "4 GiB of memory"
    await watchdog.stop()


async def test_a_gauge_that_fails_is_told_in_the_log(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    gauge = ScriptedGauge(OSError("it is gone"))
    watchdog = Watchdog(gauge, executor, pytest.fail)
    await eventually(lambda: bool(caplog.messages))
    await watchdog.stop()
    assert "it is gone" in caplog.messages[0]


async def test_a_look_that_fails_is_made_again(executor: ThreadPoolExecutor) -> None:
    barked: asyncio.Queue[str] = asyncio.Queue()
    gauge = ScriptedGauge(OSError("too many open files"), None, "4 GiB of memory")
    watchdog = Watchdog(gauge, executor, barked.put_nowait)
    assert await asyncio.wait_for(barked.get(), 10) == "4 GiB of memory"
    await watchdog.stop()


async def test_an_agent_that_cannot_be_watched_is_ended(executor: ThreadPoolExecutor) -> None:
    barked: asyncio.Queue[str] = asyncio.Queue()
    gauge = ScriptedGauge(*[OSError("too many open files")] * MOST_FAILURES, None)
    watchdog = Watchdog(gauge, executor, barked.put_nowait)
    assert await asyncio.wait_for(barked.get(), 20) == UNWATCHED
    await watchdog.stop()
