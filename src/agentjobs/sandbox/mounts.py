"""The allow-list of what an agent sees of the machine, as bwrap options. Runs nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath, PurePosixPath

import msgspec

from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, SandboxError, SandboxTask

WORKSPACE = PurePosixPath("/workspace")
RUN_DIRECTORY = PurePosixPath("/run/agentjobs")
HOME = PurePosixPath("/home/agent")
TEMPORARY = PurePosixPath("/tmp")  # noqa: S108 - a private one, inside the sandbox
SHARED_MEMORY = PurePosixPath("/dev/shm")  # noqa: S108 - the same
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Never all of /etc: it holds keys and the machine's users.
_ETC_DIRECTORIES = (
    *("alternatives", "pki/ca-trust/extracted", "pki/tls/certs", "ssl/certs"),
    # Debian's Java keeps its configuration there, and does not start without it.
    "java-*-openjdk",
)
# Copied. Each file adds 0.1 ms to every start, so only those that programs need.
_ETC_FILES = ("ld.so.cache", "services", "ssl/openssl.cnf")


class SystemView(msgspec.Struct, frozen=True):
    """The part that all jobs of this process share."""

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
        options=(*options, "--proc", "/proc", "--dev", "/dev"),
        files={str(path): path.read_bytes() for path in files if path.is_file()},
    )


def job_view(task: SandboxTask) -> list[str]:
    """Mounted after the system. The workspace is last, so that nothing is mounted into it."""
    return [
        *_scratch(SHARED_MEMORY, task.limits),
        *("--remount-ro", "/dev"),
        *_scratch(TEMPORARY, task.limits),
        *_scratch(HOME, task.limits),
        *_bind_all_read_only(task.read_only),
        *_bind_read_only(task.run_dir, RUN_DIRECTORY),
        *("--bind", str(task.run_dir / REPORT_DIRECTORY), f"{RUN_DIRECTORY}/{REPORT_DIRECTORY}"),
        *("--bind", str(task.workspace), str(WORKSPACE)),
        *("--remount-ro", "/"),
        *("--chdir", str(WORKSPACE)),
    ]


def identity_files(uid: int, gid: int, hosts: Mapping[str, str]) -> dict[str, bytes]:
    """Files that programs expect, without the machine's own users and hosts."""
    host_lines = "".join(f"{address} {name}\n" for name, address in hosts.items())
    return {
        "/etc/passwd": f"root:x:0:0::/:/bin/false\nagent:x:{uid}:{gid}::{HOME}:/bin/sh\n".encode(),
        "/etc/group": f"root:x:0:\nagent:x:{gid}:\n".encode(),
        "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{host_lines}".encode(),
    }


def _bind_read_only(source: Path, inside: PurePath) -> list[str]:
    # Only root can enter the parent directories that bwrap 0.8 creates for a bind.
    return ["--dir", str(inside.parent), "--ro-bind", str(source), str(inside)]


def _scratch(path: PurePath, limits: Limits) -> list[str]:
    size = ("--size", str(limits.scratch_bytes)) if limits.scratch_bytes else ()
    # World-writable: if bwrap runs as root, root owns the mount and the agent is another user.
    return ["--perms", "1777", *size, "--tmpfs", str(path)]


def _bind_all_read_only(paths: Iterable[Path]) -> list[str]:
    options: list[str] = []
    for path in sorted(set(paths)):
        if len(path.parts) < 2:
            raise SandboxError("the root directory cannot be shown to an agent")
        if path.parts[1] not in ("usr", *_TOP_LEVEL):
            options += _bind_read_only(path, path)
    return options
