"""The limits of sandboxes in cgroup v2, if a subtree is delegated to this service.

Reads and writes files below one directory. Refuses a cgroup that other processes share.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable
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

REQUIRED_CONTROLLERS = frozenset({"memory", "pids"})
# The kernel allows processes in leaves only, so the service moves into one.
SERVICE_LEAF = "service"
_SANDBOX = "sandbox"
_WRITTEN_FILES = (".", "cgroup.procs", "cgroup.subtree_control")
_MICROSECONDS = 1_000_000
_MAX_MOVES = 100
_CPU = "cpu"
_DEFAULT_WEIGHT = 100
# Above the sum of many sandboxes.
_SERVICE_WEIGHT = 10 * _DEFAULT_WEIGHT


class CgroupV2:
    """The kernel kills all processes at the memory limit."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self._has_low_share = False

    def limit(self) -> None:
        if self._limits.memory_bytes:
            self._write("memory.max", self._limits.memory_bytes)
            self._write("memory.oom.group", 1)
            if (self.path / "memory.swap.max").exists():
                self._write("memory.swap.max", 0)
        if self._limits.processes:
            self._write("pids.max", self._limits.processes)
        if self._limits.cpus and (self.path / "cpu.max").exists():
            quota = f"{cpu_quota(self._limits.cpus)} {CPU_PERIOD_MICROSECONDS}\n"
            (self.path / "cpu.max").write_text(quota)

    def spawn(self, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        return start()

    def add(self, pids: Iterable[int]) -> None:
        for pid in set(pids) - set(members(self.path)):
            self._write("cgroup.procs", pid)

    def contains(self, pids: Iterable[int]) -> bool:
        return set(pids) <= set(members(self.path))

    def restore_cpu_share(self) -> None:
        if (self.path / "cpu.weight").exists():
            self._write("cpu.weight", _DEFAULT_WEIGHT)
            (self.path / "cpu.max").write_text("max\n")

    def exceeded_limit(self) -> str | None:
        if not self._has_low_share:
            self._has_low_share = True
            self._lower_cpu_share()
        events = self.path / "memory.events"
        if self._limits.memory_bytes and read_number(events, "oom_kill"):
            return self._limits.memory_text if read_number(events, "oom") else NO_HOST_MEMORY
        used = read_number(self.path / "cpu.stat", "usage_usec") / _MICROSECONDS
        if self._limits.cpu_seconds and used >= self._limits.cpu_seconds:
            return self._limits.cpu_text
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _lower_cpu_share(self) -> None:
        """Called with the first measurement, so that agents start fast on a busy machine."""
        if (self.path / "cpu.weight").exists():
            self._write("cpu.weight", _DEFAULT_WEIGHT // CPU_SHARE_DIVISOR)

    def _write(self, name: str, value: int) -> None:
        write_number(self.path / name, value)


class CgroupsV2:
    """The subtree of this service. Created by `claim`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._counter = itertools.count()
        self._dying: set[Path] = set()

    def create(self, limits: Limits) -> CgroupV2:
        cgroup = CgroupV2(self.root / sandbox_name(_SANDBOX, next(self._counter)), limits)
        cgroup.path.mkdir()
        try:
            cgroup.limit()
        except OSError:
            self.discard(cgroup)
            raise
        return cgroup

    def discard(self, cgroup: Cgroup) -> None:
        assert isinstance(cgroup, CgroupV2)
        self._dying.add(cgroup.path)
        self._dying = {path for path in self._dying if not _remove(path)}

    def sweep(self, proc: Path = Path("/proc")) -> None:
        """Remove the cgroups of services that died."""
        for path in find_abandoned(self.root, _SANDBOX, proc):
            _remove(path)


def find_delegated_cgroup(proc: Path = Path("/proc")) -> Path:
    """The directory this service may divide among its sandboxes. Changes nothing."""
    own = _own_cgroup(proc)
    root = own.parent if own.name == SERVICE_LEAF else own
    try:
        available = set((root / "cgroup.controllers").read_text().split())
    except OSError as error:
        raise NotDelegated(f"{root} cannot be read: {error.strerror}") from None
    if missing := REQUIRED_CONTROLLERS - available:
        raise NotDelegated(f"{root} has no controller for {' and '.join(sorted(missing))}")
    if not all(os.access(root / name, os.W_OK) for name in _WRITTEN_FILES):
        raise NotDelegated(f"{root} is not writable by this service")
    if others := [pid for pid in members(root) if not _is_own_process(pid, proc)]:
        raise NotDelegated(f"{root} is shared with other processes, such as {others[0]}")
    return root


def has_cpu_controller(root: Path) -> bool:
    return _CPU in (root / "cgroup.controllers").read_text().split()


def claim(root: Path) -> CgroupsV2:
    """Move the service into its leaf and manage the rest. Call it once per process."""
    leaf = root / SERVICE_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for _ in range(_MAX_MOVES):
            if not (pids := members(root)):
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(f"{pid}\n")
        controllers = {*REQUIRED_CONTROLLERS, *([_CPU] if has_cpu_controller(root) else [])}
        enabled = " ".join(f"+{name}" for name in sorted(controllers))
        (root / "cgroup.subtree_control").write_text(f"{enabled}\n")
        if (leaf / "cpu.weight").exists():
            write_number(leaf / "cpu.weight", _SERVICE_WEIGHT)
        cgroups = CgroupsV2(root)
        cgroups.sweep()
        cgroups.discard(cgroups.create(Limits()))
    except OSError as error:
        raise NotDelegated(f"{root} cannot be divided: {error.strerror}") from None
    return cgroups


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


def _own_cgroup(proc: Path) -> Path:
    for controllers, path in own_memberships(proc):
        if not controllers:
            for directory, _ in mounted_directories(proc, "cgroup2", path):
                return directory
            raise NotDelegated("no mounted cgroup v2 file system contains this service")
    raise NotDelegated("this kernel has no cgroup v2")


def _is_own_process(pid: int, proc: Path) -> bool:
    """Whether it is this process or a descendant."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            stat = (proc / str(pid) / "stat").read_bytes()
        except OSError:
            return True  # it has ended
        pid = int(stat.rpartition(b")")[2].split()[1])
    return pid == os.getpid()
