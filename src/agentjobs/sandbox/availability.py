"""Explains how to fix a machine that cannot create the sandbox. Only reads kernel settings."""

from pathlib import Path

_SYSCTLS = (
    # name, the value that forbids namespaces, the value that allows them
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


def install_command(*, as_root: bool) -> str:
    sudo = "" if as_root else "sudo "
    return f"run `{sudo}apt-get install -y bubblewrap util-linux`"


def explain_namespace_failure(message: str, as_root: bool, proc: Path = Path("/proc")) -> str:
    """Combine bwrap's message with the settings that are known to forbid a namespace."""
    problem = f"bubblewrap cannot create a sandbox here ({message})"
    if "SECCOMP" in message:
        return f"{problem}: it needs a kernel with CONFIG_SECCOMP_FILTER"
    if as_root:
        return (
            f"{problem}: root needs CAP_SYS_ADMIN and bubblewrap 0.8 or newer; a container needs "
            "`--privileged`"
        )
    for name, forbids, allows in _SYSCTLS:
        if _sysctl(proc, name) == forbids:
            return f"{problem}: run `sudo sysctl -w {name}={allows}`, or start the worker as root"
    return (
        f"{problem}: it needs unprivileged user namespaces and bubblewrap 0.8 or newer; a "
        "container needs `--privileged`"
    )


def _sysctl(proc: Path, name: str) -> str | None:
    try:
        return (proc / "sys" / name.replace(".", "/")).read_text().strip()
    except OSError:
        return None
