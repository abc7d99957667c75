"""What the machine ran short of, told from its counters."""

import errno
from pathlib import Path

import pytest

from agentjobs_runtime.protocol.shortage import is_shortage
from agentjobs_worker.sandbox.host_shortage import HostShortage, reports_shortage

KILLED = 137
_MOUNT = "30 20 0:26 {root} {point} rw - cgroup2 cgroup2 rw"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Files of a machine with 200 of 32,768 processes, in a container of its own."""
    proc, container = tmp_path / "proc", tmp_path / "cgroup/container"
    (proc / "sys/kernel").mkdir(parents=True)
    (proc / "self").mkdir()
    container.mkdir(parents=True)
    (proc / "sys/kernel/pid_max").write_text("32768\n")
    (proc / "sys/kernel/threads-max").write_text("190000\n")
    (proc / "loadavg").write_text("0.10 0.20 0.30 2/200 4711\n")
    (proc / "vmstat").write_text("nr_free_pages 1\noom_kill 3\n")
    (proc / "self/cgroup").write_text("0::/container\n")
    mount = _MOUNT.format(root="/", point=container.parent)
    (proc / "self/mountinfo").write_text(f"{mount}\n")
    (container.parent / "pids.events").write_text("max 1\n")
    return proc


def test_a_machine_with_enough_of_everything_is_short_of_nothing(proc: Path) -> None:
    assert HostShortage(900_000, 64, proc).reason(1) is None
    assert HostShortage(900_000, 64, proc).reason(KILLED) is None


def test_nothing_is_known_where_a_container_shows_only_processes(tmp_path: Path) -> None:
    assert HostShortage(900_000, 64, tmp_path).reason(KILLED) is None


@pytest.mark.parametrize("limit", ["pid_max", "threads-max"])
def test_a_machine_without_processes_is_short(proc: Path, limit: str) -> None:
    shortage = HostShortage(900_000, 64, proc)
    (proc / "sys/kernel" / limit).write_text("201\n")
    assert shortage.reason(2) == "the machine has no processes left"


def test_a_container_that_refused_a_process_since_the_command_began_is_short(proc: Path) -> None:
    events = proc.parent / "cgroup/pids.events"
    assert HostShortage(900_000, 64, proc).reason(2) is None
    shortage = HostShortage(900_000, 64, proc)
    events.write_text("max 2\n")
    assert shortage.reason(2) == "the machine has no processes left"


def test_what_a_sandbox_was_refused_by_its_own_limit_does_not_count(proc: Path) -> None:
    """Newer kernels add it to `pids.events` of all cgroups above."""
    events = proc.parent / "cgroup/pids.events"
    events.with_name("pids.events.local").write_text("max 0\n")
    shortage = HostShortage(900_000, 64, proc)
    events.write_text("max 2\n")
    assert shortage.reason(2) is None


def test_only_a_killed_command_lacked_the_memory_that_the_machine_lacks(proc: Path) -> None:
    shortage = HostShortage(900_000, 64, proc)
    (proc / "vmstat").write_text("nr_free_pages 1\noom_kill 4\n")
    assert shortage.reason(1) is None
    assert shortage.reason(KILLED) is not None


@pytest.mark.parametrize(
    ("error", "is_of_machine"),
    [
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.ENFILE, "Too many open files in system"), True),
        (RuntimeError("can't start new thread"), True),
        (MemoryError(), True),
        (OSError(errno.ENOENT, "No such file or directory"), False),
        (RuntimeError("a bug"), False),
    ],
)
def test_what_this_process_cannot_get_is_a_shortage(
    error: Exception, *, is_of_machine: bool
) -> None:
    assert is_shortage(error) is is_of_machine


@pytest.mark.parametrize(
    ("message", "is_of_machine"),
    [
        ("bwrap: Creating new namespace failed: Resource temporarily unavailable", True),
        ("bwrap: Creating new namespace failed: No space left on device", True),
        ("setpriv: failed to execute /usr/bin/sh: Resource temporarily unavailable", True),
        ("bwrap: Can't mkdir /tmp: No space left on device", False),
        ("bwrap: Creating new namespace failed: Operation not permitted", False),
    ],
)
def test_bwrap_reports_a_shortage_in_words(message: str, *, is_of_machine: bool) -> None:
    assert reports_shortage(message) is is_of_machine
