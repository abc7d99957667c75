"""What a machine gives its processes and can run out of: disks and numbers of processes."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_CGROUPS = Path("/sys/fs/cgroup")
_LOOP_DEVICES = Path("/dev/loop-control")


def can_fill_disks() -> bool:
    """Only root can mount a small file system for each process."""
    return os.geteuid() == 0


def mount(directory: Path, size_mib: int, *, can_freeze: bool) -> None:
    """A small file system; one in memory cannot be frozen, and needs no device."""
    if not can_freeze or not (_LOOP_DEVICES.exists() and shutil.which("mkfs.ext4")):
        options = f"size={size_mib}m,mode=0755"
        _run("mount", "-t", "tmpfs", "-o", options, "faults", str(directory))
        return
    image = directory.with_suffix(".disk")
    with image.open("wb") as file:
        file.truncate(size_mib * 1024**2)
    _run("mkfs.ext4", "-q", "-m", "0", "-F", str(image))
    _run("mount", "-o", "loop,noatime", str(image), str(directory))
    (directory / "lost+found").rmdir()


def unmount(directory: Path) -> None:
    """What it contains stays in the directory below it, for those who look for a reason."""
    copy = directory.with_suffix(".files")
    shutil.copytree(directory, copy, symlinks=True, ignore_dangling_symlinks=True)
    _run("umount", "-l", str(directory))
    shutil.rmtree(directory)
    copy.rename(directory)


def fill(path: Path) -> None:
    """Take all space that is free."""
    status = os.statvfs(path.parent)
    with contextlib.suppress(OSError), path.open("ab") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize)


def freeze(directory: Path) -> None:
    """Whoever writes waits until `thaw`, and cannot even be killed."""
    # Otherwise the file system of the machine would be frozen.
    assert directory.is_mount()
    subprocess.run(["fsfreeze", "--freeze", str(directory)], capture_output=True, check=False)


def thaw(directory: Path) -> None:
    """Does nothing for a disk that is not frozen."""
    subprocess.run(["fsfreeze", "--unfreeze", str(directory)], capture_output=True, check=False)


class ProcessLimit(Protocol):
    """Of a service and of its agents."""

    def add(self, pid: int) -> None:
        """Apply to this process, and to those that it starts."""

    def close(self) -> None:
        """Nobody can start another process or thread."""

    def lift(self) -> None: ...


@dataclass(frozen=True)
class _Cgroup:
    directory: Path

    def add(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            (self.directory / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        current = (self.directory / "pids.current").read_text()
        (self.directory / "pids.max").write_text(current)

    def lift(self) -> None:
        (self.directory / "pids.max").write_text("max")


@dataclass
class _ResourceLimit:
    """Counts all processes of the user, so that only the lowest limit is certain to be reached."""

    _pid: int = 0

    def add(self, pid: int) -> None:
        self._pid = pid

    def close(self) -> None:
        self._set(lambda _hard: 0)

    def lift(self) -> None:
        self._set(lambda hard: hard)

    def _set(self, choose: Callable[[int], int]) -> None:
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(self._pid, resource.RLIMIT_NPROC)
            resource.prlimit(self._pid, resource.RLIMIT_NPROC, (choose(hard), hard))


def can_limit_processes() -> bool:
    """No resource limit applies to root, who needs a cgroup."""
    return os.geteuid() != 0 or _parent() is not None


@contextlib.contextmanager
def process_limit(name: str) -> Iterator[ProcessLimit]:
    if os.geteuid() != 0:
        yield _ResourceLimit()
        return
    parent = _parent()
    assert parent is not None, "no cgroup can be created that counts processes"
    group = _Cgroup(parent / name)
    group.directory.mkdir()
    try:
        yield group
    finally:
        for pid in (group.directory / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            group.directory.rmdir()


def _parent() -> Path | None:
    """Where cgroups of the controller `pids` can be created, in version 1 or 2."""
    if (_CGROUPS / "pids" / "cgroup.procs").exists():
        return _CGROUPS / "pids"
    control = _CGROUPS / "cgroup.subtree_control"
    return _CGROUPS if control.exists() and "pids" in control.read_text().split() else None


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
