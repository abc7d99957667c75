"""Limits kept by the kernel for a whole sandbox, where the service was given a cgroup v2 subtree.

Knows files below one directory. Refuses a cgroup that it shares with processes of others.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from agentjobs.sandbox.limits import Limits

NEEDED = frozenset({"memory", "pids"})
# The kernel wants processes in leaves only, so the service has one of its own.
OWN_LEAF = "service"
_SANDBOX = "sandbox"
_WRITTEN = (".", "cgroup.procs", "cgroup.subtree_control")
_MICROSECONDS = 1_000_000
_MOST_MOVES = 100


class NotDelegated(Exception):
    """There is no cgroup to use here; the message says why."""


class Cgroup:
    """One sandbox's. `look` is a gauge: the kernel itself kills at the limit of memory."""

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

    def look(self) -> str | None:
        if self._limits.memory_bytes and self._number("memory.events", "oom_kill"):
            return self._limits.memory_words
        used = self._number("cpu.stat", "usage_usec") / _MICROSECONDS
        if self._limits.cpu_seconds and used >= self._limits.cpu_seconds:
            return self._limits.cpu_words
        return None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(f"{value}\n")

    def _number(self, name: str, key: str) -> int:
        for line in (self.path / name).read_text().splitlines():
            found, _, value = line.partition(" ")
            if found == key:
                return int(value)
        return 0


class Cgroups:
    """The subtree of this service. Made by `claim`, not by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._counter = itertools.count()
        self._dying: set[Path] = set()

    def new(self, limits: Limits) -> Cgroup:
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
        """What is still in it dies; if that takes time, it is removed with a later one."""
        self._dying.add(cgroup.path)
        self._dying = {path for path in self._dying if not _removed(path)}

    def sweep(self, proc: Path = Path("/proc")) -> None:
        """Remove what services that died left behind."""
        for path in self.root.glob(f"{_SANDBOX}-*-*"):
            owner = path.name.split("-")[1]
            if owner == str(os.getpid()) or not (proc / owner).exists():
                _removed(path)


def delegated(proc: Path = Path("/proc")) -> Path:
    """The directory this service may divide among its sandboxes. Looks, and changes nothing."""
    own = _own_directory(proc)
    root = own.parent if own.name == OWN_LEAF else own
    try:
        available = set((root / "cgroup.controllers").read_text().split())
    except OSError as error:
        raise NotDelegated(f"{root} cannot be read: {error.strerror}") from None
    if missing := NEEDED - available:
        raise NotDelegated(f"{root} has no controller for {' and '.join(sorted(missing))}")
    if not all(os.access(root / name, os.W_OK) for name in _WRITTEN):
        raise NotDelegated(f"{root} is not writable for this service")
    if strangers := [pid for pid in _members(root) if not _is_ours(pid, proc)]:
        raise NotDelegated(f"{root} is shared with other processes, such as {strangers[0]}")
    return root


def claim(root: Path) -> Cgroups:
    """Move the service into its leaf and take over the rest; once in the life of a process."""
    leaf = root / OWN_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for _ in range(_MOST_MOVES):
            if not (members := _members(root)):
                break
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(f"{pid}\n")
        enabled = " ".join(f"+{name}" for name in sorted(NEEDED))
        (root / "cgroup.subtree_control").write_text(f"{enabled}\n")
        cgroups = Cgroups(root)
        cgroups.sweep()
        cgroups.discard(cgroups.new(Limits()))
    except OSError as error:
        raise NotDelegated(f"{root} cannot be divided: {error.strerror}") from None
    return cgroups


def _removed(path: Path) -> bool:
    """Whether it is gone; a process that takes its time to die holds it."""
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


def _own_directory(proc: Path) -> Path:
    place = _unified_line(proc)
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.split()[0] == "cgroup2":
            mounted_root, mount_point = fields.split()[3:5]
            if place == mounted_root or place.startswith(mounted_root.rstrip("/") + "/"):
                below = place.removeprefix(mounted_root.rstrip("/")).lstrip("/")
                return Path(mount_point, below)
    raise NotDelegated("no cgroup v2 file system is mounted that shows this service")


def _unified_line(proc: Path) -> str:
    for line in (proc / "self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    raise NotDelegated("this kernel has no cgroup v2")


def _members(path: Path) -> list[int]:
    return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]


def _is_ours(pid: int, proc: Path) -> bool:
    """This process or one that descends from it."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            stat = (proc / str(pid) / "stat").read_bytes()
        except OSError:
            return True  # gone by now
        pid = int(stat.rpartition(b")")[2].split()[1])
    return pid == os.getpid()
