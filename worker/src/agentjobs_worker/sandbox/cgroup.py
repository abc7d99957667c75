"""The cgroups of sandboxes, in which the kernel enforces limits: version 2 only.

Reads and writes files below one directory, which `cgroup_delegation` finds.
"""

import contextlib
import itertools
import os
import re
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import NO_HOST_MEMORY, Limits

_SANDBOX = "sandbox"
_SANDBOX_NAME = re.compile(rf"{_SANDBOX}-(\d+)-\d+")
_MICROSECONDS = 1_000_000
_DEFAULT_WEIGHT = 100
# The CPU share of a sandbox, against the default of everything else on the machine.
_LOW_WEIGHT = _DEFAULT_WEIGHT // 10
# Above the sum of many sandboxes.
SERVICE_WEIGHT = 10 * _DEFAULT_WEIGHT
_CPU_PERIOD_MICROSECONDS = 100_000
# The kernel accepts no lower quota.
_MIN_QUOTA_MICROSECONDS = 1_000


class Cgroup:
    """The cgroup of one sandbox, and a gauge of its limits.

    The kernel kills all processes at the memory limit.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self._has_low_share = False
        self.is_quiet = False
        self._cpu_microseconds = 0

    def limit(self) -> None:
        if self._limits.memory_bytes:
            self._write("memory.max", self._limits.memory_bytes)
            self._write("memory.oom.group", 1)
            if (self.path / "memory.swap.max").exists():
                self._write("memory.swap.max", 0)
        if self._limits.processes:
            self._write("pids.max", self._limits.processes)
        if self._limits.cpus and (self.path / "cpu.max").exists():
            quota = round(self._limits.cpus * _CPU_PERIOD_MICROSECONDS)
            quota = max(quota, _MIN_QUOTA_MICROSECONDS)
            (self.path / "cpu.max").write_text(f"{quota} {_CPU_PERIOD_MICROSECONDS}\n")

    @property
    def entry_command(self) -> tuple[str, ...]:
        """Moves itself into the cgroup and becomes the command that follows.

        Moving a process from outside would leave out the children that it already has.
        """
        return ("/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self.path / "cgroup.procs"))

    def kill(self) -> None:
        """Its processes need CPU time to end."""
        if (self.path / "cpu.weight").exists():
            self._write("cpu.weight", _DEFAULT_WEIGHT)
            (self.path / "cpu.max").write_text("max\n")
        _kill_all(self.path)

    def exceeded_limit(self) -> str | None:
        if not self._has_low_share:
            self._has_low_share = True
            self._lower_cpu_share()
        events = self.path / "memory.events"
        if self._limits.memory_bytes and read_number(events, "oom_kill"):
            return self._limits.memory_text if read_number(events, "oom") else NO_HOST_MEMORY
        used = read_number(self.path / "cpu.stat", "usage_usec")
        self.is_quiet, self._cpu_microseconds = used == self._cpu_microseconds, used
        if self._limits.cpu_seconds and used >= self._limits.cpu_seconds * _MICROSECONDS:
            return self._limits.cpu_text
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _lower_cpu_share(self) -> None:
        """Called with the first measurement, so that agents start fast on a busy machine."""
        if (self.path / "cpu.weight").exists():
            self._write("cpu.weight", _LOW_WEIGHT)

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(f"{value}\n")


class Cgroups:
    """The subtree of this service. Creates and removes the cgroups of sandboxes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._counter = itertools.count()
        self._dying: set[Path] = set()

    def create(self, limits: Limits) -> Cgroup:
        name = f"{_SANDBOX}-{os.getpid()}-{next(self._counter)}"
        cgroup = Cgroup(self.root / name, limits)
        cgroup.path.mkdir()
        try:
            cgroup.limit()
        except OSError:
            self.discard(cgroup)
            raise
        return cgroup

    def discard(self, cgroup: Cgroup) -> None:
        """Kill its processes and remove it; if they take time to die, a later call removes it."""
        self._dying.add(cgroup.path)
        self._dying = {path for path in self._dying if not _remove(path)}

    def sweep(self, proc: Path = Path("/proc")) -> None:
        """Remove the cgroups of services that died, and those of this process."""
        for path in self.root.glob(f"{_SANDBOX}-*-*"):
            owner = _SANDBOX_NAME.fullmatch(path.name)
            if owner and (int(owner[1]) == os.getpid() or not (proc / owner[1]).exists()):
                _remove(path)


def members(directory: Path) -> list[int]:
    return [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]


def read_number(file: Path, key: str) -> int:
    """The value of a key in a file of `key value` lines; 0 if there is none."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def _remove(path: Path) -> bool:
    """Whether the cgroup is gone: a process that has not died yet keeps it."""
    with contextlib.suppress(OSError):
        _kill_all(path)
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def _kill_all(path: Path) -> None:
    descriptor = os.open(path / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"1\n")
    finally:
        os.close(descriptor)
