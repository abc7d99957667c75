"""What a sandbox has written to disk. Looks at the free space often, into the tree rarely."""

import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

from agentjobs.sandbox.deleted_files import DeletedFiles
from agentjobs.sandbox.limits import BLOCK_BYTES, FILE_BYTES, Limits
from agentjobs.sandbox.protocol import REPORT_DIRECTORY, SandboxTask

# A tree is walked again when so much more of its limit may be used.
FIRST_SHARE = 16
LEAST_SHARE = 64
# Deeper ones are not entered: each level holds a descriptor.
MOST_LEVELS = 128


def written_directories(task: SandboxTask) -> tuple[Path, ...]:
    return task.workspace, task.run_dir / REPORT_DIRECTORY


class DiskUsage:
    """A gauge of the directories an agent can write to that outlast it.

    `look` may run in any thread, in one at a time; `stop` makes it end early.
    """

    def __init__(
        self, limits: Limits, directories: Sequence[Path], deleted: DeletedFiles | None = None
    ) -> None:
        self._limits = limits
        self._directories = directories
        self._deleted = deleted
        self._free_bytes = self._free()
        self._vanished_bytes = 0
        self._since_walk = 0
        self._worth_a_walk = limits.workspace_bytes // FIRST_SHARE
        self._stopped = threading.Event()

    def look(self) -> str | None:
        self._count_vanished()
        if self._since_walk < self._worth_a_walk:
            return None
        used = self._walked()
        limit = self._limits.workspace_bytes
        self._since_walk = 0
        self._worth_a_walk = max((limit - used) // 2, limit // LEAST_SHARE)
        return self._limits.workspace_words if used > limit else None

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        if self._deleted is not None:
            self._deleted.close()

    def _count_vanished(self) -> None:
        # Step by step: space that others give back meanwhile hides at most one step.
        free = self._free()
        gone = max(0, self._free_bytes - free)
        self._free_bytes = free
        self._vanished_bytes += gone
        self._since_walk += gone

    def _walked(self) -> int:
        walk = Walk(self._stopped)
        for directory in self._directories:
            walk.add(directory)
        used = walk.used_bytes
        if self._deleted is not None:
            device = self._directories[0].stat().st_dev
            used += self._deleted.used_bytes(device, self._stopped)
        # What hides behind a closed directory is taken for all that vanished.
        return used if walk.saw_all else max(used, self._vanished_bytes)

    def _free(self) -> int:
        found = os.statvfs(self._directories[0])
        return found.f_bfree * found.f_frsize + found.f_ffree * FILE_BYTES


class Walk:
    """Adds up a tree that changes meanwhile and may be hostile: never through a link."""

    def __init__(self, stopped: threading.Event) -> None:
        self.used_bytes = 0
        self.saw_all = True
        self._stopped = stopped
        self._linked: set[tuple[int, int]] = set()

    def add(self, directory: Path) -> None:
        if not self._stopped.is_set():
            self._enter(str(directory), None, MOST_LEVELS)

    def _enter(self, name: str, parent: int | None, levels: int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError:
            self.saw_all = False
            return
        self.used_bytes += FILE_BYTES
        try:
            self._list(descriptor, levels)
        finally:
            os.close(descriptor)

    def _list(self, descriptor: int, levels: int) -> None:
        if levels == 0:
            self.saw_all = False
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
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
            inode = (found.st_dev, found.st_ino)
            if inode in self._linked:
                return
            self._linked.add(inode)
        self.used_bytes += found.st_blocks * BLOCK_BYTES + FILE_BYTES
