"""Free space of the data directory's file system, and a reserve for the database.

Below the floor, the service starts nothing that writes to disk. The reserve is a file that is
deleted before the disk is full, so that the database can still commit.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import NamedTuple

from agentjobs_runtime.problems import Problem

KIB = 1024
MIB = 1024**2
RESERVE_NAME = "reserve"
RETRY_SECONDS = 60
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# A file system may keep a few blocks that no file can get.
_FULL_BYTES = 64 * KIB


class DiskSpace(NamedTuple):
    free_bytes: int
    total_bytes: int


class FreeSpace:
    def __init__(self, directory: Path, floor_mib: int) -> None:
        self._directory = directory
        self._floor_bytes = floor_mib * MIB
        self._reserve_bytes = min(64 * MIB, self._floor_bytes // 4)

    @property
    def is_low(self) -> bool:
        """Takes microseconds."""
        return self._free_bytes() < self._floor_bytes

    @property
    def is_full(self) -> bool:
        """Not even the reserve of the database is free: programs fail."""
        return self._free_bytes() < self._reserve_bytes

    def measure(self) -> DiskSpace:
        return disk_space(self._directory)

    def check(self) -> None:
        """Raises `unavailable` below the floor."""
        if self.is_low:
            raise Problem(
                "unavailable",
                "The disk of the service is nearly full. Try again later; the operator can free"
                f" space or lower disk_floor_mib, which is {self._floor_bytes // MIB}.",
                retry_after_seconds=RETRY_SECONDS,
            )

    def keep_reserve(self) -> None:
        """Blocking: give the reserve to the database if it needs the space, restore it later."""
        reserve = self._directory / RESERVE_NAME
        free_bytes = self._free_bytes()
        if free_bytes < self._reserve_bytes:
            reserve.unlink(missing_ok=True)
        elif free_bytes > self._floor_bytes and not reserve.exists() and self._reserve_bytes:
            # Another process of this directory may do the same.
            with contextlib.suppress(OSError), reserve.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, self._reserve_bytes)

    def _free_bytes(self) -> int:
        return free_bytes(self._directory)


def free_bytes(path: Path) -> int:
    """The space of the file system of a path, which may not exist yet."""
    return disk_space(path).free_bytes


def disk_space(path: Path) -> DiskSpace:
    status = _file_system(path)
    return DiskSpace(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def describe_full(path: Path | str) -> str:
    return f"the disk of {path} is full; free some space there"


def describe_read_only(path: Path | str) -> str:
    return f"the file system of {path} is read-only; mount it writable, or choose another directory"


def explain_os_error(error: BaseException) -> str | None:
    """Which file system is full or read-only, and what to do; None if the error is another one."""
    if not isinstance(error, OSError):
        return None
    # When a file is copied, the second name is the file that is written.
    path = error.filename2 or error.filename
    if error.errno in NO_SPACE:
        return describe_full(path) if path else f"the disk is full: {error.strerror}"
    return describe_read_only(path) if error.errno == errno.EROFS and path else None


def explain_write_failure(path: Path) -> str | None:
    """Why nothing can be written to a path: its file system is full or read-only.

    Programs report both in many ways, such as a file that cannot be opened.
    """
    try:
        status = _file_system(path)
    except OSError:
        return None
    if status.f_flag & os.ST_RDONLY:
        return describe_read_only(path)
    # Some file systems have no limit for files.
    has_file_limit = status.f_files > 0
    if status.f_bavail * status.f_frsize < _FULL_BYTES or (has_file_limit and not status.f_favail):
        return describe_full(path)
    return None


def _file_system(path: Path) -> os.statvfs_result:
    """Statistics for the closest directory that exists."""
    return os.statvfs(
        next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    )
