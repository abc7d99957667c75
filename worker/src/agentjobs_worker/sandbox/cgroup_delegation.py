"""Finds the cgroups that this service may use. Prefers version 2."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentjobs_worker.sandbox import cgroup_v1, cgroup_v2
from agentjobs_worker.sandbox.cgroup import Cgroups, NotDelegated

_SYSTEMD = Path("/run/systemd/system")
_WITHOUT_SYSTEMD = "start the service in a cgroup with the controllers cpu, memory and pids"


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
