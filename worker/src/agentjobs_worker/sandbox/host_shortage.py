"""What the machine ran short of while a command failed, as opposed to the limits of the command."""

import contextlib
import itertools
import os
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import NO_HOST_MEMORY
from agentjobs_worker.sandbox.cgroup import read_number
from agentjobs_worker.sandbox.cgroup_delegation import mounted_directories, own_memberships

_NO_PROCESSES = "the machine has no processes left"
# With more than this fraction in use, starting a process may have failed.
_SCARCE_FRACTION = 0.9
_VMSTAT = "vmstat"
_KILLED = 128 + signal.SIGKILL
_TEXTS = re.compile(
    "Resource temporarily unavailable|Cannot allocate memory|Too many open files|Cannot fork"
    # The limits of user.max_*_namespaces.
    "|Creating new namespace failed: No space left on device"
)


def reports_shortage(message: str) -> bool:
    return _TEXTS.search(message) is not None


class HostShortage:
    """Begins with a command. `reason` is what the machine ran short of since then.

    `uid` is the user whose processes the kernel counts for the command, and `max_processes` how
    many this user may have; 0 for the limit of the service.
    """

    def __init__(self, uid: int, max_processes: int, proc: Path = Path("/proc")) -> None:
        self._uid = uid
        self._max_processes = max_processes or resource.getrlimit(resource.RLIMIT_NPROC)[0]
        self._proc = proc
        self._counters_before = self._counters()

    def reason(self, exit_code: int) -> str | None:
        """Call it in a thread, when no process of the command is alive.

        `exit_code` is 0 if a cgroup tells whether the kernel killed the command.
        """
        before = self._counters_before
        grown = {file.name for file, n in self._counters().items() if n > before.get(file, n)}
        if grown - {_VMSTAT}:
            return _NO_PROCESSES
        if grown and exit_code == _KILLED:
            return NO_HOST_MEMORY
        # A container may show nothing but processes.
        with contextlib.suppress(OSError):
            tasks = int((self._proc / "loadavg").read_text().split()[3].partition("/")[2])
            kernel = self._proc / "sys/kernel"
            limits = (int((kernel / name).read_text()) for name in ("pid_max", "threads-max"))
            if tasks > min(limits) * _SCARCE_FRACTION:
                return _NO_PROCESSES
        # Root is exempt from the limit, and no limit is a negative number.
        if self._uid and 0 < self._max_processes * _SCARCE_FRACTION < self._tasks_of_user():
            return f"others use the processes of the user {self._uid}"
        return None

    def _counters(self) -> dict[Path, int]:
        """How often the kernel killed a process for want of memory, and refused a new one to a
        cgroup that this service is in."""
        counters: dict[Path, int] = {}
        with contextlib.suppress(OSError):
            counters[self._proc / _VMSTAT] = read_number(self._proc / _VMSTAT, "oom_kill")
            counters |= {file: read_number(file, "max") for file in self._pids_events()}
        return counters

    def _pids_events(self) -> Iterator[Path]:
        for controllers, path in own_memberships(self._proc):
            kind = {"": "cgroup2", "pids": "cgroup"}.get(controllers, "none")
            for directory in mounted_directories(self._proc, kind, path):
                for level in (directory, *directory.parents):
                    # Without `.local`, newer kernels add what the sandboxes below it were refused.
                    files = (level / "pids.events.local", level / "pids.events")
                    yield from itertools.islice(filter(Path.exists, files), 1)

    def _tasks_of_user(self) -> int:
        """Threads count too: each has a directory."""
        tasks = 0
        for entry in filter(lambda entry: entry.name.isdigit(), os.scandir(self._proc)):
            try:
                if entry.stat().st_uid == self._uid:
                    tasks += Path(entry.path, "task").stat().st_nlink - 2
            except OSError:
                continue  # it has ended
        return tasks
