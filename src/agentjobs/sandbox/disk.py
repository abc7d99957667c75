"""Measures what a sandbox wrote to disk: free space often, the tree itself rarely."""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentjobs.sandbox.limits import BLOCK_BYTES, FILE_BYTES, Limits
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, SandboxTask

# The tree is measured again when free space shrank by this fraction of the limit.
FIRST_FRACTION = 16
MIN_FRACTION = 64
# Deeper directories are not entered: each level holds a descriptor.
MAX_DEPTH = 128


def writable_directories(task: SandboxTask) -> tuple[Path, ...]:
    return task.workspace, task.run_dir / REPORT_DIRECTORY


class DiskUsage:
    """A gauge of the writable directories that remain after the agent ends.

    `exceeded_limit` may run in any thread, one at a time; `stop` ends it early.
    """

    def __init__(
        self, limits: Limits, directories: Sequence[Path], deleted: "DeletedFiles | None" = None
    ) -> None:
        self._limits = limits
        self._directories = directories
        self._deleted = deleted
        self._free_bytes = self._free()
        self._lost_bytes = 0
        self._lost_since_measured = 0
        self._measure_after = limits.workspace_bytes // FIRST_FRACTION
        self._stopped = threading.Event()

    def exceeded_limit(self) -> str | None:
        self._count_lost_space()
        if self._lost_since_measured < self._measure_after:
            return None
        used = self._measure()
        limit = self._limits.workspace_bytes
        self._lost_since_measured = 0
        self._measure_after = max((limit - used) // 2, limit // MIN_FRACTION)
        return self._limits.workspace_text if used > limit else None

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        if self._deleted is not None:
            self._deleted.close()

    def _count_lost_space(self) -> None:
        # In small steps, so that space which others free in between hides at most one step.
        free = self._free()
        lost = max(0, self._free_bytes - free)
        self._free_bytes = free
        self._lost_bytes += lost
        self._lost_since_measured += lost

    def _measure(self) -> int:
        usage = TreeUsage(self._stopped)
        for directory in self._directories:
            usage.add(directory)
        used = usage.used_bytes
        if self._deleted is not None:
            device = self._directories[0].stat().st_dev
            used += self._deleted.used_bytes(device, self._stopped)
        # If a directory cannot be read, assume that it holds all the space that was lost.
        return used if usage.is_complete else max(used, self._lost_bytes)

    def _free(self) -> int:
        status = os.statvfs(self._directories[0])
        return status.f_bfree * status.f_frsize + status.f_ffree * FILE_BYTES


class TreeUsage:
    """Adds up a hostile tree while it changes. Follows no link."""

    def __init__(self, stopped: threading.Event) -> None:
        self.used_bytes = 0
        self.is_complete = True
        self._stopped = stopped
        self._counted_inodes: set[tuple[int, int]] = set()

    def add(self, directory: Path) -> None:
        if not self._stopped.is_set():
            self._enter(str(directory), None, MAX_DEPTH)

    def _enter(self, name: str, parent: int | None, levels: int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError:
            self.is_complete = False
            return
        self.used_bytes += FILE_BYTES
        try:
            self._list(descriptor, levels)
        finally:
            os.close(descriptor)

    def _list(self, descriptor: int, levels: int) -> None:
        if levels == 0:
            self.is_complete = False
            return
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if self._stopped.is_set():
                    return
                if entry.is_dir(follow_symlinks=False):
                    self._enter(entry.name, descriptor, levels - 1)
                else:
                    self._count(entry)

    def _count(self, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            inode = (status.st_dev, status.st_ino)
            if inode in self._counted_inodes:
                return
            self._counted_inodes.add(inode)
        self.used_bytes += status.st_blocks * BLOCK_BYTES + FILE_BYTES


class DeletedFiles:
    """Files that processes hold open after deleting them, so that no directory lists them.

    Reads the sandbox's /proc from outside, and opens no file of the agent.
    """

    def __init__(self, init_pid: int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._proc = os.open(f"/proc/{init_pid}/root/proc", flags)

    def used_bytes(self, device: int, stopped: threading.Event) -> int:
        """Counts one file system only: scratch space is memory, and counted as memory."""
        blocks = {
            status.st_ino: status.st_blocks
            for status in self._open_files(stopped)
            if status.st_dev == device and status.st_nlink == 0 and stat.S_ISREG(status.st_mode)
        }
        return sum(blocks.values()) * BLOCK_BYTES

    def close(self) -> None:
        os.close(self._proc)

    def _open_files(self, stopped: threading.Event) -> Iterator[os.stat_result]:
        for pid in filter(str.isdigit, os.listdir(self._proc)):  # noqa: PTH208 - a descriptor
            for path in self._descriptors(pid):
                if stopped.is_set():
                    return
                with contextlib.suppress(OSError):
                    yield os.stat(path, dir_fd=self._proc)

    def _descriptors(self, pid: str) -> list[str]:
        """Empty if the process has ended or may not be inspected."""
        try:
            directory = os.open(f"{pid}/fd", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return []
        try:
            return [f"{pid}/fd/{name}" for name in os.listdir(directory)]  # noqa: PTH208 - the same
        except OSError:
            return []
        finally:
            os.close(directory)
