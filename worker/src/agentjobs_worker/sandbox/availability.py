"""Explains how to fix a machine that cannot create the sandbox. Only reads kernel settings."""

import platform
import re
import sys
from pathlib import Path

from agentjobs_worker.sandbox.syscalls import ARCHITECTURES

# Overlays of idmapped directories, and overlays in user namespaces.
_MIN_KERNEL = {True: (5, 19), False: (5, 11)}
# Container runtimes forbid namespaces and mounts, also those that a user may create.
_CONTAINER_OPTIONS = (
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)
_SYSCTLS = (
    # name, the value that forbids namespaces, the value that allows them
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


def install_command(*, as_root: bool) -> str:
    sudo = "" if as_root else "sudo "
    return f"run `{sudo}apt-get install -y bubblewrap util-linux`"


def explain_architecture() -> str:
    machine = f"{platform.machine()}, {64 if sys.maxsize > 2**32 else 32}-bit"
    supported = " and ".join(ARCHITECTURES)
    return (
        f"agents cannot run on this machine ({machine}), because the sandbox filters system calls "
        f"of 64-bit {supported} only: run `agentjobs worker` on such a machine; `agentjobs serve` "
        "can stay here"
    )


def explain_namespace_failure(message: str, as_root: bool, proc: Path = Path("/proc")) -> str:
    """Combine bwrap's message with the settings that are known to forbid a namespace."""
    problem = f"bubblewrap cannot create a sandbox here ({message})"
    if "SECCOMP" in message:
        return f"{problem}: it needs a kernel with CONFIG_SECCOMP_FILTER"
    if as_root:
        return (
            f"{problem}: root needs CAP_SYS_ADMIN and bubblewrap 0.8 or newer; start a container "
            f"with `--privileged`, or as another user with `{_CONTAINER_OPTIONS}`"
        )
    if command := _allowing_command(proc):
        return f"{problem}: run `{command}`, or start the worker as root"
    return (
        f"{problem}: it needs unprivileged user namespaces and bubblewrap 0.8 or newer; start a "
        f"container with `{_CONTAINER_OPTIONS}`"
    )


def explain_layer_failure(
    message: str,
    directory: Path,
    *,
    as_root: bool,
    release: str = platform.release(),
    proc: Path = Path("/proc"),
) -> str:
    """Why tasks with layers in this directory do not run, although others do."""
    problem = f"repositories cannot have an environment on this machine ({message})"
    needed = _MIN_KERNEL[as_root]
    if tuple(map(int, re.findall(r"\d+", release)[:2])) < needed:
        return f"{problem}: it has Linux {release}, and needs {'.'.join(map(str, needed))} or newer"
    if command := _allowing_command(proc):
        return f"{problem}: run `{command}`"
    if "mount a layer" in message or "map the owner" in message:
        return (
            f"{problem}: move the data directory {directory} to a file system such as ext4, XFS or "
            "Btrfs; the file system of a container itself is none, a volume is"
        )
    options = "--privileged" if as_root else _CONTAINER_OPTIONS
    return f"{problem}: allow unprivileged user namespaces; start a container with `{options}`"


def _allowing_command(proc: Path) -> str | None:
    for name, forbids, allows in _SYSCTLS:
        if _sysctl(proc, name) == forbids:
            return f"sudo sysctl -w {name}={allows}"
    return None


def _sysctl(proc: Path, name: str) -> str | None:
    try:
        return (proc / "sys" / name.replace(".", "/")).read_text().strip()
    except OSError:
        return None
