"""Measures what a sandbox wrote to disk: free space often, the tree itself rarely."""

import math
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agentjobs_runtime.sandboxes.directories import WRITABLE_DIRECTORIES
from agentjobs_runtime.sandboxes.limits import BLOCK_BYTES, FILE_BYTES, Limits, format_bytes
from agentjobs_worker.sandbox.deleted_files import DeletedFiles
from agentjobs_worker.sandbox.protocol import SandboxTask

# The tree is measured again when free space shrank by this fraction of the limit.
FIRST_FRACTION = 16
MIN_FRACTION = 64
# Deeper directories are not entered: each level holds a descriptor.
MAX_DEPTH = 128
# After an agent was stopped because the disk is nearly full, its files are removed.
RELEASE_SECONDS = 5
# The end of the limit's text, if the sandbox was stopped for that reason.
WHILE_NEARLY_FULL = "while the disk was nearly full"


def writable_directories(task: SandboxTask) -> tuple[Path, ...]:
    uppers = (layer.upper for layer in task.layers if layer.upper != task.workspace)
    own = (task.run_dir / name for name in WRITABLE_DIRECTORIES)
    return task.workspace, *own, *uppers


class SharedDisk:
    """State that the disk gauges of this service share. Used in one thread.

    Below half of `floor_bytes` of free space, the service stops the agent that uses the most, if
    that is more than this half.
    """

    def __init__(self, floor_bytes: int = 0) -> None:
        self.critical_bytes = floor_bytes // 2
        self.gauges: set[DiskUsage] = set()
        self._stopped_at = -math.inf

    def growth_of_others(self, gauge: "DiskUsage") -> int:
        return sum(other.growth_bytes for other in self.gauges - {gauge})

    def may_stop(self, gauge: "DiskUsage") -> bool:
        """Only the agent that uses most, and no other until its files can be removed."""
        if time.monotonic() < self._stopped_at + RELEASE_SECONDS:
            return False
        if any(other.used_bytes > gauge.used_bytes for other in self.gauges):
            return False
        self._stopped_at = time.monotonic()
        return True


class DiskUsage:
    """A gauge of the writable directories that remain after the agent ends.

    `exceeded_limit` may run in any thread, one at a time; `stop` ends it early.
    """

    def __init__(
        self,
        limits: Limits,
        directories: Sequence[Path],
        deleted: DeletedFiles | None = None,
        shared: SharedDisk | None = None,
        *,
        statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
    ) -> None:
        self._limits = limits
        self._directories = directories
        self._deleted = deleted
        self._shared = shared or SharedDisk()
        self._statvfs = statvfs
        self._free_bytes = self._free(statvfs(directories[0]))
        self.is_quiet = False
        self._lost_bytes = 0
        self._lost_since_measured = 0
        self._measure_after = limits.workspace_bytes // FIRST_FRACTION
        self._stopped = threading.Event()
        self._first_used_bytes: int | None = None
        self.used_bytes = 0
        self._shared.gauges.add(self)

    @property
    def growth_bytes(self) -> int:
        """At least this much was written since the first measurement."""
        return max(0, self.used_bytes - (self._first_used_bytes or 0))

    def exceeded_limit(self) -> str | None:
        status = self._statvfs(self._directories[0])
        self._count_lost_space(status)
        critical = self._shared.critical_bytes
        is_critical = status.f_bavail * status.f_frsize < critical
        limit = self._limits.workspace_bytes
        if not is_critical and (not limit or self._lost_since_measured < self._measure_after):
            return None
        self._update()
        self._measure_after = max((limit - self.used_bytes) // 2, limit // MIN_FRACTION)
        if limit and self.used_bytes > limit:
            return self._limits.workspace_text
        if is_critical and self.used_bytes > critical and self._shared.may_stop(self):
            return f"{format_bytes(critical)} in the workspace {WHILE_NEARLY_FULL}"
        return None

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._shared.gauges.discard(self)
        if self._deleted is not None:
            self._deleted.close()

    def _count_lost_space(self, status: os.statvfs_result) -> None:
        # In small steps, so that space which others free in between hides at most one step.
        free = self._free(status)
        self.is_quiet = free == self._free_bytes
        lost = max(0, self._free_bytes - free)
        self._free_bytes = free
        self._lost_bytes += lost
        self._lost_since_measured += lost

    def _update(self) -> None:
        self.used_bytes = self._measure()
        if self._first_used_bytes is None:
            self._first_used_bytes = self.used_bytes
        self._lost_since_measured = 0

    def _measure(self) -> int:
        usage = TreeUsage(self._stopped)
        for directory in self._directories:
            usage.add(directory)
        used = usage.used_bytes
        if self._deleted is None:
            return used if usage.is_complete else max(used, self._lost_bytes)
        device = self._directories[0].stat().st_dev
        used += self._deleted.used_bytes(device, self._stopped)
        # If a directory cannot be read, assume that it holds all the space that was lost.
        if not usage.is_complete:
            return max(used, self._lost_bytes)
        # Files may be hidden. Assume that they hold the space that no other agent uses.
        unexplained = self._lost_bytes - self._shared.growth_of_others(self)
        if unexplained > self._limits.workspace_bytes >= used and self._deleted.may_hide_files(
            device, self._stopped
        ):
            return unexplained
        return used

    @staticmethod
    def _free(status: os.statvfs_result) -> int:
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


def measure_tree(directory: Path) -> int:
    """Blocking: the bytes that a tree uses on disk."""
    usage = TreeUsage(threading.Event())
    usage.add(directory)
    return usage.used_bytes
