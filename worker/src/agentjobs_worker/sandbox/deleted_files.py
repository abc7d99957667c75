"""Files that an agent's processes keep after deleting them, so that no directory lists them.

Reads the sandbox's /proc from outside, and opens no file of the agent.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from agentjobs_runtime.sandboxes.limits import BLOCK_BYTES

_DELETED = b" (deleted)"


class DeletedFiles:
    """Counts one file system and its layers: scratch space is memory, and counted as memory."""

    def __init__(self, init_pid: int, layers: Iterable[PurePath] = ()) -> None:
        root = f"/proc/{init_pid}/root"
        # A layer has a device number of its own.
        self._layer_devices = frozenset(Path(f"{root}{path}").stat().st_dev for path in layers)
        self._proc = os.open(f"{root}/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def used_bytes(self, device: int, stopped: threading.Event) -> int:
        devices = {device, *self._layer_devices}
        blocks = {
            (status.st_dev, status.st_ino): status.st_blocks
            for status in self._open_files(stopped)
            if status.st_dev in devices and status.st_nlink == 0 and stat.S_ISREG(status.st_mode)
        }
        return sum(blocks.values()) * BLOCK_BYTES

    def may_hide_files(self, device: int, stopped: threading.Event) -> bool:
        """Whether processes keep files that `used_bytes` cannot see.

        Only root can see the size of a mapped file, and no user can see a descriptor that was sent
        to a socket and not received.
        """
        devices = {device, *self._layer_devices}
        for process in self._processes():
            if stopped.is_set():
                return False
            for name in self._list(f"{process}/fd"):
                if _has_descriptors_in_flight(self._read(f"{process}/fdinfo/{name}")):
                    return True
            for mapping in self._deleted_mappings(process):
                if not self._is_visible(process, mapping) and _device(mapping) in devices:
                    return True
        return False

    def close(self) -> None:
        os.close(self._proc)

    def _open_files(self, stopped: threading.Event) -> Iterator[os.stat_result]:
        for process in self._processes():
            paths = [f"{process}/fd/{name}" for name in self._list(f"{process}/fd")]
            paths += [_mapped_file(process, line) for line in self._deleted_mappings(process)]
            for path in paths:
                if stopped.is_set():
                    return
                with contextlib.suppress(OSError):
                    yield os.stat(path, dir_fd=self._proc)

    def _processes(self) -> Iterator[str]:
        for pid in filter(str.isdigit, os.listdir(self._proc)):  # noqa: PTH208 - a descriptor
            if self._list(f"{pid}/fd"):
                yield pid
            else:
                # If the first thread has ended, only the others show what the process has.
                yield from (f"{pid}/task/{thread}" for thread in self._list(f"{pid}/task"))

    def _deleted_mappings(self, process: str) -> list[list[bytes]]:
        """The fields of lines in `maps`: addresses, permissions, offset, device, inode, path."""
        lines = self._read(f"{process}/maps").splitlines()
        return [line.split(None, 5) for line in lines if line.endswith(_DELETED)]

    def _is_visible(self, process: str, mapping: list[bytes]) -> bool:
        try:
            os.stat(_mapped_file(process, mapping), dir_fd=self._proc)
        except PermissionError:
            return False
        except OSError:
            return True
        return True

    def _list(self, path: str) -> list[str]:
        """Empty if the process has ended or may not be inspected."""
        with contextlib.suppress(OSError):
            directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
            try:
                return os.listdir(directory)  # noqa: PTH208 - a descriptor
            finally:
                os.close(directory)
        return []

    def _read(self, path: str) -> bytes:
        """Empty if the process has ended or may not be inspected."""
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
            with os.fdopen(file, "rb") as opened:
                return opened.read()
        return b""


def _mapped_file(process: str, mapping: list[bytes]) -> str:
    """`maps` pads addresses with zeros, and the names in `map_files` are without them."""
    start, _, end = mapping[0].partition(b"-")
    return f"{process}/map_files/{int(start, 16):x}-{int(end, 16):x}"


def _device(mapping: list[bytes]) -> int:
    major, _, minor = mapping[3].partition(b":")
    return os.makedev(int(major, 16), int(minor, 16))


def _has_descriptors_in_flight(fdinfo: bytes) -> bool:
    _, found, rest = fdinfo.partition(b"scm_fds:")
    return bool(found) and int(rest.split()[0]) > 0
