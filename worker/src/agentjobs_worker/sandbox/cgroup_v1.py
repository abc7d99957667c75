"""The limits of sandboxes in cgroup v1, on machines where only those hierarchies have controllers.

Creates directories below the cgroups of this service and moves no process but the sandbox's.
"""

import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from subprocess import Popen

from agentjobs_runtime.sandboxes.limits import NO_HOST_MEMORY, Limits
from agentjobs_worker.sandbox.cgroup import (
    CPU_PERIOD_MICROSECONDS,
    CPU_SHARE_DIVISOR,
    Cgroup,
    NotDelegated,
    cpu_quota,
    find_abandoned,
    members,
    mounted_directories,
    own_memberships,
    read_number,
    sandbox_name,
    write_number,
)

MEMORY, CPU, CPU_TIME = "memory", "cpu", "cpuacct"
# An rlimit bounds the number of processes: every hierarchy would delay the start.
_REQUIRED = (MEMORY, CPU_TIME)
_SANDBOX = "agentjobs"
_DEFAULT_SHARES = 1024
_NO_QUOTA = -1
_THIS_THREAD = 0
_NANOSECONDS = 1_000_000_000
_FULL_FRACTION = 0.9


class CgroupV1:
    """The kernel kills one process at the memory limit; then the watchdog kills the others."""

    def __init__(self, directories: Mapping[str, Path], limits: Limits) -> None:
        self.directories = directories
        self._limits = limits
        self._has_low_share = False

    def limit(self) -> None:
        if self._limits.memory_bytes:
            self._write(MEMORY, "memory.limit_in_bytes", self._limits.memory_bytes)
            with_swap = self.directories[MEMORY] / "memory.memsw.limit_in_bytes"
            if with_swap.exists():
                write_number(with_swap, self._limits.memory_bytes)
            # Version 1 counts the buffers of sockets apart.
            sockets = self.directories[MEMORY] / "memory.kmem.tcp.limit_in_bytes"
            if sockets.exists():
                write_number(sockets, self._limits.memory_bytes)
        if CPU in self.directories and self._limits.cpus:
            self._write(CPU, "cpu.cfs_period_us", CPU_PERIOD_MICROSECONDS)
            self._write(CPU, "cpu.cfs_quota_us", cpu_quota(self._limits.cpus))

    def spawn(self, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        """The process inherits the cgroup of the thread that starts it.

        A thread moves itself within microseconds. To move another process, the kernel waits for all
        CPUs, once for each hierarchy.
        """
        try:
            self._move_this_thread(self.directories)
            return start()
        finally:
            self._move_this_thread(self._parents)

    def add(self, pids: Iterable[int]) -> None:
        for directory in set(self.directories.values()):
            for pid in set(pids) - set(members(directory)):
                write_number(directory / "cgroup.procs", pid)

    def contains(self, pids: Iterable[int]) -> bool:
        return all(set(pids) <= set(members(path)) for path in set(self.directories.values()))

    def restore_cpu_share(self) -> None:
        if CPU in self.directories:
            self._write(CPU, "cpu.shares", _DEFAULT_SHARES)
            self._write(CPU, "cpu.cfs_quota_us", _NO_QUOTA)

    def exceeded_limit(self) -> str | None:
        if not self._has_low_share:
            self._has_low_share = True
            self._lower_cpu_share()
        memory, cpu_time = self.directories[MEMORY], self.directories[CPU_TIME]
        if self._limits.memory_bytes and read_number(memory / "memory.oom_control", "oom_kill"):
            peak_bytes = int((memory / "memory.max_usage_in_bytes").read_text())
            is_own = peak_bytes > self._limits.memory_bytes * _FULL_FRACTION
            return self._limits.memory_text if is_own else NO_HOST_MEMORY
        used = int((cpu_time / "cpuacct.usage").read_text()) / _NANOSECONDS
        if self._limits.cpu_seconds and used >= self._limits.cpu_seconds:
            return self._limits.cpu_text
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _lower_cpu_share(self) -> None:
        """Called with the first measurement, so that agents start fast on a busy machine."""
        if CPU in self.directories:
            self._write(CPU, "cpu.shares", _DEFAULT_SHARES // CPU_SHARE_DIVISOR)

    @property
    def _parents(self) -> dict[str, Path]:
        return {controller: path.parent for controller, path in self.directories.items()}

    @staticmethod
    def _move_this_thread(directories: Mapping[str, Path]) -> None:
        for directory in set(directories.values()):
            write_number(directory / "tasks", _THIS_THREAD)

    def _write(self, controller: str, name: str, value: int) -> None:
        write_number(self.directories[controller] / name, value)


class CgroupsV1:
    """`directories` are the cgroups of this service, by controller."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self.directories = directories
        self._counter = itertools.count()
        self._dying: set[Path] = set()

    def create(self, limits: Limits) -> CgroupV1:
        name = sandbox_name(_SANDBOX, next(self._counter))
        directories = {
            controller: directory / name for controller, directory in self.directories.items()
        }
        cgroup = CgroupV1(directories, limits)
        try:
            for directory in set(directories.values()):
                directory.mkdir()
            cgroup.limit()
        except OSError:
            self.discard(cgroup)
            raise
        return cgroup

    def discard(self, cgroup: Cgroup) -> None:
        assert isinstance(cgroup, CgroupV1)
        self._dying.update(cgroup.directories.values())
        self._dying = {path for path in self._dying if not _remove(path)}

    def sweep(self, proc: Path = Path("/proc")) -> None:
        """Remove the cgroups of services that died."""
        for directory in set(self.directories.values()):
            for path in find_abandoned(directory, _SANDBOX, proc):
                _remove(path)


def find_delegated_cgroups(proc: Path = Path("/proc")) -> dict[str, Path]:
    """The directories of this service by controller. Changes nothing."""
    directories: dict[str, Path] = {}
    for names, path in own_memberships(proc):
        controllers = set(names.split(",")) & {*_REQUIRED, CPU}
        for directory, options in mounted_directories(proc, "cgroup", path):
            for controller in controllers & options:
                directories.setdefault(controller, directory)
    if missing := [name for name in _REQUIRED if name not in directories]:
        raise NotDelegated(f"no hierarchy for {' and '.join(missing)} is mounted")
    for directory in directories.values():
        if not os.access(directory, os.W_OK):
            raise NotDelegated(f"{directory} is not writable by this service")
    return directories


def claim(directories: Mapping[str, Path]) -> CgroupsV1:
    cgroups = CgroupsV1(directories)
    try:
        cgroups.sweep()
        cgroups.discard(cgroups.create(Limits(cpus=1)))
    except OSError as error:
        raise NotDelegated(f"cannot be divided: {error.strerror}") from None
    return cgroups


def _remove(path: Path) -> bool:
    """Whether the cgroup is gone: a process that has not died yet keeps it."""
    with contextlib.suppress(OSError):
        for pid in members(path):
            # 0 is a process of another pid namespace: not one of this service. This process is
            # listed while one of its threads is in the cgroup.
            if pid not in {0, os.getpid()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()
