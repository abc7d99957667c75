"""Finds the cgroup that this service may divide among its sandboxes, and claims it.

Refuses a cgroup that other processes share.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.cgroup import SERVICE_WEIGHT, Cgroups, members

_SYSTEMD = Path("/run/systemd/system")
_WITHOUT_SYSTEMD = "start the service in a cgroup with the controllers cpu, memory and pids"
REQUIRED_CONTROLLERS = frozenset({"memory", "pids"})
# The kernel allows processes in leaves only, so the service moves into one.
SERVICE_LEAF = "service"
_WRITTEN_FILES = (".", "cgroup.procs", "cgroup.subtree_control")
_MAX_MOVES = 100
_CPU = "cpu"


class NotDelegated(Exception):
    """No cgroup is usable; the message says why."""


def delegation_command(systemd: Path = _SYSTEMD) -> str:
    """How to start the service so that it has a cgroup of its own."""
    if not systemd.is_dir():
        return _WITHOUT_SYSTEMD
    scope = "--scope" if os.geteuid() == 0 else "--user --scope"
    return f"start it with `systemd-run {scope} -p Delegate=yes agentjobs worker` (or `up`)"


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


def claim(root: Path) -> Cgroups:
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
            (leaf / "cpu.weight").write_text(f"{SERVICE_WEIGHT}\n")
        cgroups = Cgroups(root)
        cgroups.sweep()
        cgroups.discard(cgroups.create(Limits()))
    except OSError as error:
        raise NotDelegated(f"{root} cannot be divided: {error.strerror}") from None
    return cgroups


def _own_cgroup(proc: Path) -> Path:
    for controllers, path in own_memberships(proc):
        if not controllers:
            for directory in mounted_directories(proc, "cgroup2", path):
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


def own_memberships(proc: Path) -> Iterator[tuple[str, str]]:
    """The controllers (empty for v2) and the path of each cgroup this process is in."""
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path


def mounted_directories(proc: Path, file_system: str, path: str) -> Iterator[Path]:
    """Where hierarchies of this type show the cgroup `path`."""
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        mounted_root, mount_point = fields.split()[3:5]
        if rest.split(" ", 1)[0] != file_system:
            continue
        if path == mounted_root or path.startswith(mounted_root.rstrip("/") + "/"):
            yield Path(mount_point, path.removeprefix(mounted_root.rstrip("/")).lstrip("/"))
