"""Says what to type on a machine that cannot make the sandbox. Reads kernel settings only."""

from pathlib import Path

_SYSCTLS = (
    # name, the value that forbids, the value that allows
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


def install_command(*, as_root: bool) -> str:
    sudo = "" if as_root else "sudo "
    return f"run `{sudo}apt-get install -y bubblewrap util-linux`"


def why_namespaces_fail(words: str, as_root: bool, proc: Path = Path("/proc")) -> str:
    """From bwrap's own words and the settings that are known to forbid a namespace."""
    problem = f"bubblewrap cannot make a sandbox here ({words})"
    if "SECCOMP" in words:
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
