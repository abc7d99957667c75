"""Limits that the kernel enforces for a whole sandbox: finds the cgroups this service may use.

Prefers cgroup v2. Only describes what both versions have in common.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from subprocess import Popen
from typing import Protocol

import msgspec

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox import cgroup_v1, cgroup_v2
from agentjobs_worker.sandbox.cgroup_files import NotDelegated

_SYSTEMD = Path("/run/systemd/system")
_WITHOUT_SYSTEMD = "start the service in a cgroup with the controllers cpu, memory and pids"


class Cgroup(Protocol):
    """The cgroup of one sandbox, and a gauge of its limits."""

    def spawn(self, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        """Start a process, inside the cgroup if the kernel allows that without delay."""

    def add(self, pids: Iterable[int]) -> None:
        """Move those that are not in it. That can take many milliseconds."""

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


class Delegation(msgspec.Struct, frozen=True):
    """Cgroups that this service may use. `claim` raises NotDelegated."""

    description: str
    limits_cpus: bool
    claim: Callable[[], Cgroups]


def find_delegation(proc: Path = Path("/proc")) -> Delegation:
    """Changes nothing. Raises NotDelegated."""
    try:
        root = cgroup_v2.find_delegated_cgroup(proc)
    except NotDelegated as error:
        reason = str(error)
    else:
        return Delegation(
            f"cgroup v2 at {root}",
            cgroup_v2.has_cpu_controller(root),
            lambda: cgroup_v2.claim(root),
        )
    try:
        directories = cgroup_v1.find_delegated_cgroups(proc)
    except NotDelegated as error:
        raise NotDelegated(f"{reason}; cgroup v1: {error}") from None
    return Delegation(
        f"cgroup v1 at {directories[cgroup_v1.MEMORY]}",
        cgroup_v1.CPU in directories,
        lambda: cgroup_v1.claim(directories),
    )


def delegation_command(systemd: Path = _SYSTEMD) -> str:
    """How to start the service so that it has a cgroup of its own."""
    if not systemd.is_dir():
        return _WITHOUT_SYSTEMD
    scope = "--scope" if os.geteuid() == 0 else "--user --scope"
    return f"start it with `systemd-run {scope} -p Delegate=yes agentjobs worker` (or `up`)"
