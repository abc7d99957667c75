"""Limits that the kernel enforces for a whole sandbox: what both versions of cgroups share."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import Popen
from typing import Protocol

from agentjobs_runtime.sandboxes.limits import Limits

# The CPU share of a sandbox, against the default of everything else on the machine.
CPU_SHARE_DIVISOR = 10
CPU_PERIOD_MICROSECONDS = 100_000
# The kernel accepts no lower quota.
_MIN_QUOTA_MICROSECONDS = 1_000


class NotDelegated(Exception):
    """No cgroup is usable; the message says why."""


class Cgroup(Protocol):
    """The cgroup of one sandbox, and a gauge of its limits."""

    def spawn(self, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        """Start a process, inside the cgroup if the kernel allows that without delay."""

    def add(self, pids: Iterable[int]) -> None:
        """Move processes into the cgroup. That can take many milliseconds."""

    def contains(self, pids: Iterable[int]) -> bool: ...

    def restore_cpu_share(self) -> None:
        """Killed processes need CPU time to end."""

    def exceeded_limit(self) -> str | None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Cgroups(Protocol):
    """Creates and removes the cgroups of sandboxes."""

    def create(self, limits: Limits) -> Cgroup: ...

    def discard(self, cgroup: Cgroup) -> None:
        """Kill its processes and remove it; if they take time to die, a later call removes it."""


def cpu_quota(cpus: float) -> int:
    """Microseconds in each period."""
    return max(round(cpus * CPU_PERIOD_MICROSECONDS), _MIN_QUOTA_MICROSECONDS)


def write_number(file: Path, value: int) -> None:
    file.write_text(f"{value}\n")


def read_number(file: Path, key: str) -> int:
    """The value of a key in a file of `key value` lines; 0 if there is none."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def members(directory: Path) -> list[int]:
    return [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]


def own_memberships(proc: Path) -> Iterator[tuple[str, str]]:
    """The controllers (empty for v2) and the path of each cgroup this process is in."""
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path


def mounted_directories(proc: Path, file_system: str, path: str) -> Iterator[tuple[Path, set[str]]]:
    """Where hierarchies of this type show the cgroup `path`, with their options."""
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        mounted_type, _, options = rest.split(" ", 2)
        if mounted_type != file_system:
            continue
        mounted_root, mount_point = fields.split()[3:5]
        if path == mounted_root or path.startswith(mounted_root.rstrip("/") + "/"):
            below = path.removeprefix(mounted_root.rstrip("/")).lstrip("/")
            yield Path(mount_point, below), set(options.split(","))


def sandbox_name(prefix: str, number: int) -> str:
    return f"{prefix}-{os.getpid()}-{number}"


def find_abandoned(directory: Path, prefix: str, proc: Path) -> list[Path]:
    """The cgroups of sandboxes whose service died, and those of this process."""
    name = re.compile(rf"{re.escape(prefix)}-(\d+)-\d+")
    owners = {path: name.fullmatch(path.name) for path in directory.glob(f"{prefix}-*-*")}
    return [
        path
        for path, owner in owners.items()
        if owner and (int(owner[1]) == os.getpid() or not (proc / owner[1]).exists())
    ]
