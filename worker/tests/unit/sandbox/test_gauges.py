"""How gauges and watchdogs measure usage, without a sandbox."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import FILE_BYTES, UNMEASURED, Limits, format_bytes
from agentjobs_worker.sandbox.disk import (
    MAX_DEPTH,
    RELEASE_SECONDS,
    DiskUsage,
    SharedDisk,
    TreeUsage,
)
from agentjobs_worker.sandbox.usage import CpuTime, ProcessStat
from agentjobs_worker.sandbox.watchdog import (
    MAX_FAILURES,
    UNWATCHED,
    Watchdog,
    WatchThread,
)
from tests.support.sandbox import eventually

TICKS = os.sysconf("SC_CLK_TCK")


def process(own: int = 0, children: int = 0, started: int = 1) -> ProcessStat:
    """A stat line with these seconds of CPU time and a hostile process name."""
    fields = ["S", *["0"] * 10, str(own * TICKS), "0", str(children * TICKS), "0"]
    return ProcessStat(
        f"7 (a) S 1) {' '.join([*fields, *['0'] * 4, str(started), '0', '3'])}".encode()
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (4 * 1024**3, "4 GiB"),
        (1536 * 1024**2, "1536 MiB"),
        (1000, "1000 bytes"),
        (2048 * 1024**3, "2048 GiB"),
        (5 * 1024, "5 KiB"),
    ],
)
def test_a_size_is_formatted_in_its_largest_whole_unit(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_limits_have_a_text() -> None:
    limits = Limits(cpu_seconds=60)
    assert limits.memory_text == "4 GiB of memory"
    assert limits.workspace_text == "10 GiB in the workspace"
    assert limits.cpu_text == "60 seconds of CPU time"


def test_a_limit_of_zero_sets_no_rlimit() -> None:
    assert "ulimit -f" not in Limits(file_bytes=0).shell_commands()
    assert "ulimit -t" not in Limits(cpu_seconds=0).shell_commands()
    assert "ulimit -u" not in Limits(processes=0).shell_commands()
    assert "ulimit -u" not in Limits().shell_commands(own_user=False)


def test_resident_memory_is_read_in_pages() -> None:
    assert process().resident_bytes == 3 * os.sysconf("SC_PAGE_SIZE")


def test_cpu_time_includes_running_processes_and_reaped_children() -> None:
    assert CpuTime().seconds({1: process(own=2), 2: process(own=3, children=4)}) == 9


def test_cpu_time_of_unreaped_children_is_not_lost() -> None:
    clock = CpuTime()
    clock.seconds({1: process(own=1), 2: process(own=5)})
    assert clock.seconds({1: process(own=1)}) == 6
    assert clock.seconds({1: process(own=2)}) == 7


def test_cpu_time_of_reaped_children_counts_once() -> None:
    clock = CpuTime()
    clock.seconds({1: process(own=1), 2: process(own=5)})
    assert clock.seconds({1: process(own=1, children=5)}) == 6


def test_a_reused_pid_is_another_process() -> None:
    clock = CpuTime()
    clock.seconds({2: process(own=5, started=1)})
    assert clock.seconds({2: process(own=1, started=9)}) == 6


def test_tree_usage_follows_no_symlinks_and_counts_hard_links_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(os.urandom(1_000_000))
    (tree / "deep" / "file").write_bytes(os.urandom(100_000))
    os.link(tree / "deep" / "file", tree / "same")
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "way-out").symlink_to(tmp_path)
    usage = TreeUsage(threading.Event())
    usage.add(tree)
    assert 100_000 <= usage.used_bytes <= 120_000 + 5 * FILE_BYTES
    assert usage.is_complete


def test_a_tree_deeper_than_the_limit_is_incomplete(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    usage = TreeUsage(threading.Event())
    usage.add(tmp_path)
    assert not usage.is_complete


def test_a_missing_tree_uses_nothing(tmp_path: Path) -> None:
    usage = TreeUsage(threading.Event())
    usage.add(tmp_path / "missing")
    assert (usage.used_bytes, usage.is_complete) == (0, True)


class StopsAt(threading.Event):
    """Is set after this many queries."""

    def __init__(self, questions: int) -> None:
        super().__init__()
        self.questions = questions

    def is_set(self) -> bool:
        self.questions -= 1
        return self.questions < 0


def test_a_stopped_measurement_ends_at_the_next_file(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / str(number)).touch()
    usage = TreeUsage(StopsAt(4))
    usage.add(tmp_path)
    assert usage.used_bytes == 4 * FILE_BYTES


def test_a_measurement_that_starts_after_stop_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    # So low that every call measures the tree.
    limits = Limits(workspace_bytes=1)
    gauge = DiskUsage(limits, [tmp_path])
    assert gauge.exceeded_limit() == limits.workspace_text
    gauge.stop()
    assert gauge.exceeded_limit() is None


class Disk:
    """A file system with this much free space."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes

    def status(self, path: Path) -> os.statvfs_result:
        fields = list(os.statvfs(path))
        fields[0:2] = [1, 1]
        fields[3:5] = [self.free_bytes, self.free_bytes]
        return os.statvfs_result(fields)


def test_a_disk_is_quiet_while_its_free_space_stays_the_same(tmp_path: Path) -> None:
    disk = Disk(free_bytes=100)
    gauge = DiskUsage(Limits(), [tmp_path], statvfs=disk.status)
    is_quiet = []
    for disk.free_bytes in (100, 99, 99, 100):
        gauge.exceeded_limit()
        is_quiet.append(gauge.is_quiet)
    assert is_quiet == [True, False, True, False]


def test_the_agent_that_uses_the_most_is_ended_when_the_disk_is_nearly_full(
    tmp_path: Path,
) -> None:
    mib = 1024 * 1024
    disk = Disk(free_bytes=100 * mib)
    shared = SharedDisk(floor_bytes=8 * mib)
    gauges = {}
    for name, size in (("large", 6), ("largest", 7), ("small", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(os.urandom(size * mib))
        directories = [tmp_path / name]
        gauges[name] = DiskUsage(Limits(), directories, shared=shared, statvfs=disk.status)

    def exceeded() -> list[str | None]:
        return [gauge.exceeded_limit() for gauge in gauges.values()]

    assert exceeded() == [None] * 3
    disk.free_bytes = 5 * mib
    assert exceeded() == [None] * 3
    disk.free_bytes = 3 * mib
    for gauge in gauges.values():
        gauge._update()
    text = "4 MiB in the workspace while the disk was nearly full"
    assert exceeded() == [None, text, None]
    # Its files are not removed yet.
    gauges.pop("largest").close()
    assert exceeded() == [None] * 2
    shared._stopped_at -= RELEASE_SECONDS
    assert exceeded() == [text, None]
    gauges.pop("large").close()
    shared._stopped_at -= RELEASE_SECONDS
    assert exceeded() == [None]


class ScriptedGauge:
    """Returns or raises the given results in order, then waits for `stop`."""

    def __init__(self, *results: str | OSError | None, is_quiet: bool = False) -> None:
        self.results = list(results)
        self.is_quiet = is_quiet
        self.is_waiting = threading.Event()
        self.is_stopped = threading.Event()
        self.is_closed = False

    def exceeded_limit(self) -> str | None:
        if not self.results:
            self.is_waiting.set()
            self.is_stopped.wait(10)
            return "too late"
        result = self.results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result

    def stop(self) -> None:
        self.is_stopped.set()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def thread() -> WatchThread:
    return WatchThread("agentjobs-test")


def watch(
    thread: WatchThread, gauge: ScriptedGauge, on_exceeded: Callable[[str], None] = pytest.fail
) -> Watchdog:
    watchdog = Watchdog(gauge, on_exceeded)
    thread.add(watchdog)
    return watchdog


async def test_a_watchdog_reports_an_exceeded_limit_once(thread: WatchThread) -> None:
    reports: asyncio.Queue[str] = asyncio.Queue()
    gauge = ScriptedGauge(None, None, "4 GiB of memory", "again")
    watchdog = watch(thread, gauge, reports.put_nowait)
    assert await asyncio.wait_for(reports.get(), 10) == "4 GiB of memory"
    await watchdog.stop()
    assert (gauge.results, reports.empty(), gauge.is_closed) == (["again"], True, True)


async def test_a_stopped_watchdog_waits_for_its_measurement_and_reports_nothing(
    thread: WatchThread,
) -> None:
    gauge = ScriptedGauge()
    watchdog = watch(thread, gauge)
    await asyncio.to_thread(gauge.is_waiting.wait, 10)
    await watchdog.stop()
    assert gauge.is_closed


async def test_a_stopped_watchdog_does_not_wait_for_other_watchdogs(thread: WatchThread) -> None:
    long, queued = ScriptedGauge(), ScriptedGauge(None)
    first, second = watch(thread, long), watch(thread, queued)
    await asyncio.to_thread(long.is_waiting.wait, 10)
    await asyncio.wait_for(second.stop(), 5)
    assert (queued.is_closed, queued.results) == (True, [None])
    await first.stop()
    await eventually(lambda: not thread._is_running)
    assert queued.results == [None]


async def test_time_in_the_queue_does_not_delay_the_next_measurement(
    thread: WatchThread,
) -> None:
    long, gauge = ScriptedGauge(), ScriptedGauge(None, "4 GiB of memory")
    reports: asyncio.Queue[str] = asyncio.Queue()
    first, second = watch(thread, long), watch(thread, gauge, reports.put_nowait)
    # Ten times this wait would exceed the timeout below.
    report = asyncio.ensure_future(reports.get())
    await asyncio.wait({report}, timeout=1)
    await first.stop()
    assert await asyncio.wait_for(report, 9) == "4 GiB of memory"
    await second.stop()


@pytest.mark.parametrize(
    ("is_quiet", "duration_seconds", "due_at"),
    [(False, 0.001, 7.3), (True, 0.001, 7.5), (False, 0.2, 9.23), (True, 0.2, 9.23)],
)
async def test_gauges_are_due_together_and_less_often_while_nothing_happens(
    duration_seconds: float, due_at: float, *, is_quiet: bool
) -> None:
    watchdog = Watchdog(ScriptedGauge(is_quiet=is_quiet), pytest.fail)
    assert watchdog._next_due_at(7.23, duration_seconds) == pytest.approx(due_at)


async def test_a_failing_gauge_is_logged(
    thread: WatchThread, caplog: pytest.LogCaptureFixture
) -> None:
    gauge = ScriptedGauge(OSError("no such process"))
    watchdog = watch(thread, gauge)
    await eventually(lambda: bool(caplog.messages))
    await watchdog.stop()
    assert "no such process" in caplog.messages[0]


async def test_a_failed_measurement_is_repeated(thread: WatchThread) -> None:
    reports: asyncio.Queue[str] = asyncio.Queue()
    gauge = ScriptedGauge(OSError("too many open files"), None, "4 GiB of memory")
    watchdog = watch(thread, gauge, reports.put_nowait)
    assert await asyncio.wait_for(reports.get(), 10) == "4 GiB of memory"
    await watchdog.stop()


@pytest.mark.parametrize(
    ("error", "report"),
    [
        (OSError(errno.EMFILE, "too many open files"), UNMEASURED),
        # What an agent itself may cause is no shortage of the machine.
        (OSError(errno.ENAMETOOLONG, "file name too long"), UNWATCHED),
    ],
)
async def test_an_agent_that_cannot_be_watched_is_killed(
    thread: WatchThread, error: OSError, report: str
) -> None:
    reports: asyncio.Queue[str] = asyncio.Queue()
    watchdog = watch(thread, ScriptedGauge(*[error] * MAX_FAILURES, None), reports.put_nowait)
    assert await asyncio.wait_for(reports.get(), 20) == report
    await watchdog.stop()


async def test_a_thread_that_could_not_start_starts_with_the_next_gauge(
    thread: WatchThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            watch(thread, ScriptedGauge())
    reports: asyncio.Queue[str] = asyncio.Queue()
    watchdog = watch(thread, ScriptedGauge("4 GiB of memory"), reports.put_nowait)
    assert await asyncio.wait_for(reports.get(), 10) == "4 GiB of memory"
    await watchdog.stop()
