"""The allow-list of what an agent sees of the machine, as bwrap options. Runs nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath, PurePosixPath

import msgspec

from agentjobs_runtime.sandboxes.directories import (
    HOME,
    ROOT,
    RUN_DIRECTORY,
    WORKSPACE,
    WRITABLE_DIRECTORIES,
)
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxTask

TEMPORARY = PurePosixPath("/tmp")  # noqa: S108 - a private one, inside the sandbox
SHARED_MEMORY = PurePosixPath("/dev/shm")  # noqa: S108 - the same
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where `job_view` mounts something, from a root directory on.
MOUNT_POINTS = (
    PurePosixPath("/proc"),
    PurePosixPath("/dev"),
    TEMPORARY,
    HOME,
    RUN_DIRECTORY,
    WORKSPACE,
)

_TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Never all of /etc: it holds keys and the machine's users.
_ETC_DIRECTORIES = (
    *("alternatives", "pki/ca-trust/extracted", "pki/tls/certs", "ssl/certs"),
    # Debian's Java keeps its configuration there, and does not start without it.
    "java-*-openjdk",
)
# Copied. Each file adds 0.1 ms to every start, so only those that programs need.
_ETC_FILES = ("ld.so.cache", "services", "ssl/openssl.cnf")
_KERNEL = ("--proc", "/proc", "--dev", "/dev")


class SystemView(msgspec.Struct, frozen=True):
    """The options that all jobs of this process share."""

    options: tuple[str, ...]
    files: dict[str, bytes]


def system_view() -> SystemView:
    options = ["--ro-bind", "/usr", "/usr"]
    for path in (Path("/", name) for name in _TOP_LEVEL):
        if path.is_symlink():
            options += ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            options += _bind_read_only(path, path)
    etc = Path("/etc")
    for path in (path for name in _ETC_DIRECTORIES for path in sorted(etc.glob(name))):
        if path.is_dir():
            options += _bind_read_only(path, path)
    files = (etc / name for name in _ETC_FILES)
    return SystemView(
        options=(*options, *_KERNEL),
        files={str(path): path.read_bytes() for path in files if path.is_file()},
    )


def image_view(source: Path) -> tuple[str, ...]:
    """Options instead of `system_view`, which show nothing of the machine."""
    return ("--bind", str(source), str(ROOT), *_KERNEL)


def job_view(task: SandboxTask, source: Callable[[Path], Path]) -> list[str]:
    """Mounted after the system. The workspace is last, so that nothing is mounted into it.

    `source` says where bwrap finds a path of the machine.
    """
    uppers = {layer.inside: layer.upper for layer in task.layers}
    run_dir = source(task.run_dir)
    home = (
        ("--bind", str(source(uppers[HOME])), str(HOME))
        if HOME in uppers
        else _scratch(HOME, task.limits)
    )
    return [
        *_scratch(SHARED_MEMORY, task.limits),
        *("--remount-ro", "/dev"),
        *_scratch(TEMPORARY, task.limits),
        *home,
        *(option for path in visible_files(task) for option in _bind_read_only(source(path), path)),
        *_bind_read_only(run_dir, RUN_DIRECTORY),
        *(
            option
            for name in WRITABLE_DIRECTORIES
            for option in ("--bind", str(run_dir / name), str(RUN_DIRECTORY / name))
        ),
        *("--bind", str(source(task.workspace)), str(WORKSPACE)),
        # An image is writable, as a machine is for its user.
        *(() if ROOT in uppers else ("--remount-ro", "/")),
        *("--chdir", str(WORKSPACE)),
    ]


def scratch_directories(task: SandboxTask) -> list[PurePosixPath]:
    """Directories backed by tmpfs."""
    layered = {layer.inside for layer in task.layers}
    return [path for path in (SHARED_MEMORY, TEMPORARY, HOME) if path not in layered]


def visible_files(task: SandboxTask) -> list[Path]:
    """What is mounted read-only at its own path. The system's directories are there, or not at all.

    Raises SandboxError.
    """
    if any(len(path.parts) < 2 for path in task.read_only):
        raise SandboxError("the root directory cannot be shown to an agent")
    return sorted({path for path in task.read_only if path.parts[1] not in ("usr", *_TOP_LEVEL)})


def identity_files(uid: int, gid: int, hosts: Mapping[str, str]) -> dict[str, bytes]:
    """Files that programs expect, without the machine's own users and hosts."""
    accounts = account_files(uid, gid)
    return {
        "/etc/passwd": b"root:x:0:0::/:/bin/false\n" + accounts["/etc/passwd"],
        "/etc/group": b"root:x:0:\n" + accounts["/etc/group"],
        "/etc/hosts": hosts_file(hosts),
    }


def account_files(uid: int, gid: int) -> dict[str, bytes]:
    return {
        "/etc/passwd": f"agent:x:{uid}:{gid}::{HOME}:/bin/sh\n".encode(),
        "/etc/group": f"agent:x:{gid}:\n".encode(),
    }


def hosts_file(hosts: Mapping[str, str]) -> bytes:
    lines = "".join(f"{address} {name}\n" for name, address in hosts.items())
    return f"127.0.0.1 localhost\n::1 localhost\n{lines}".encode()


def _bind_read_only(source: Path, inside: PurePath) -> list[str]:
    # Only root can enter the parent directories that bwrap 0.8 creates for a bind.
    return ["--dir", str(inside.parent), "--ro-bind", str(source), str(inside)]


def _scratch(path: PurePath, limits: Limits) -> list[str]:
    size = ("--size", str(limits.scratch_bytes)) if limits.scratch_bytes else ()
    # World-writable: if bwrap runs as root, root owns the mount and the agent is another user.
    return ["--perms", "1777", *size, "--tmpfs", str(path)]
