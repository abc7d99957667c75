"""Files that the processes of a sandbox hold open after deleting them: no walk finds those."""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator

from agentjobs.sandbox.limits import BLOCK_BYTES


class DeletedFiles:
    """Looks from outside through the sandbox's own /proc; opens nothing of the agent's."""

    def __init__(self, init_pid: int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._proc = os.open(f"/proc/{init_pid}/root/proc", flags)

    def used_bytes(self, device: int, stopped: threading.Event) -> int:
        """On that file system only: scratch space is memory and counted as such."""
        blocks = {
            found.st_ino: found.st_blocks
            for found in self._open_files(stopped)
            if found.st_dev == device and found.st_nlink == 0 and stat.S_ISREG(found.st_mode)
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
        """None if the process is gone by now, or is not ours to look into."""
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
