"""Limits that the kernel enforces for a whole sandbox, if a cgroup v2 subtree is delegated to us.

Reads and writes files below one directory. Refuses a cgroup that other processes share.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from agentjobs.sandbox.limits import Limits

REQUIRED_CONTROLLERS = frozenset({"memory", "pids"})
# The kernel allows processes in leaves only, so the service moves into one.
SERVICE_LEAF = "service"
_SANDBOX = "sandbox"
_WRITTEN_FILES = (".", "cgroup.procs", "cgroup.subtree_control")
_MICROSECONDS = 1_000_000
_MAX_MOVES = 100


class NotDelegated(Exception):
    """No cgroup is usable; the message says why."""


class Cgroup:
    """The cgroup of one sandbox, and a gauge: the kernel kills at the memory limit."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._limits = limits

    def limit(self) -> None:
        if self._limits.memory_bytes:
            self._write("memory.max", self._limits.memory_bytes)
            self._write("memory.oom.group", 1)
            if (self.path / "memory.swap.max").exists():
                self._write("memory.swap.max", 0)
        if self._limits.processes:
            self._write("pids.max", self._limits.processes)

    def add(self, pids: Iterable[int]) -> None:
        for pid in pids:
            self._write("cgroup.procs", pid)

    def exceeded_limit(self) -> str | None:
        if self._limits.memory_bytes and self._number("memory.events", "oom_kill"):
            return self._limits.memory_text
        used = self._number("cpu.stat", "usage_usec") / _MICROSECONDS
        if self._limits.cpu_seconds and used >= self._limits.cpu_seconds:
            return self._limits.cpu_text
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(f"{value}\n")

    def _number(self, name: str, key: str) -> int:
        for line in (self.path / name).read_text().splitlines():
            name_in_file, _, value = line.partition(" ")
            if name_in_file == key:
                return int(value)
        return 0


class Cgroups:
    """The subtree of this service. Created by `claim`."""

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
        """Remove the cgroups of services that died."""
        for path in self.root.glob(f"{_SANDBOX}-*-*"):
            owner = path.name.split("-")[1]
            if owner == str(os.getpid()) or not (proc / owner).exists():
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
    if others := [pid for pid in _members(root) if not _is_own_process(pid, proc)]:
        raise NotDelegated(f"{root} is shared with other processes, such as {others[0]}")
    return root


def claim(root: Path) -> Cgroups:
    """Move the service into its leaf and manage the rest. Call it once per process."""
    leaf = root / SERVICE_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for _ in range(_MAX_MOVES):
            if not (members := _members(root)):
                break
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(f"{pid}\n")
        enabled = " ".join(f"+{name}" for name in sorted(REQUIRED_CONTROLLERS))
        (root / "cgroup.subtree_control").write_text(f"{enabled}\n")
        cgroups = Cgroups(root)
        cgroups.sweep()
        cgroups.discard(cgroups.create(Limits()))
    except OSError as error:
        raise NotDelegated(f"{root} cannot be divided: {error.strerror}") from None
    return cgroups


def _remove(path: Path) -> bool:
    """Whether it is gone. A process that has not died yet keeps it."""
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
    path = _cgroup_path(proc)
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.split()[0] == "cgroup2":
            mounted_root, mount_point = fields.split()[3:5]
            if path == mounted_root or path.startswith(mounted_root.rstrip("/") + "/"):
                below = path.removeprefix(mounted_root.rstrip("/")).lstrip("/")
                return Path(mount_point, below)
    raise NotDelegated("no mounted cgroup v2 file system contains this service")


def _cgroup_path(proc: Path) -> str:
    for line in (proc / "self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    raise NotDelegated("this kernel has no cgroup v2")


def _members(path: Path) -> list[int]:
    return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]


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
