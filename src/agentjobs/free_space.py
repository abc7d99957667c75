"""Free space of the data directory's file system, and a reserve for the database.

Below the floor, the service starts nothing that writes to disk. The reserve is a file that is
deleted before the disk is full, so that the database can still commit.
"""

import contextlib
import os
from pathlib import Path

from agentjobs.problems import Problem

MIB = 1024**2
RESERVE_NAME = "reserve"
RETRY_SECONDS = 60


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
        # The directory may not exist yet.
        existing = next(
            path for path in (self._directory, *self._directory.absolute().parents) if path.exists()
        )
        status = os.statvfs(existing)
        return status.f_bavail * status.f_frsize
