"""Changes a directory as a hostile pod says. Runs in the process of `apply_changes`.

Opens every parent relative to a descriptor and follows no link, so that nothing outside changes.
"""
# Paths are relative to descriptors, which Path objects cannot be.
# ruff: noqa: PTH118, PTH208

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Sequence

from agentjobs_kubernetes.change_stream import (
    DIRECTORY,
    LINK,
    Change,
    ChangesRefused,
    printable_path,
)

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = _FILE_FLAGS | os.O_CREAT | os.O_EXCL
# The worker must be able to read, change and remove what is written.
_MIN_DIRECTORY_MODE = 0o700
_MIN_FILE_MODE = 0o400


class HostileTree:
    """`lower` is what the directory is a layer over, if anything: missing parents are as there."""

    def __init__(self, directory: str, lower: str = "") -> None:
        self._root = os.open(directory, _DIRECTORY_FLAGS)
        self._lower = os.fsencode(lower)
        # Directories without an entry of their own; entries are counted by the caller.
        self.created_parents = 0
        # The parents of the last path, below the root.
        self._names: list[bytes] = []
        self._descriptors: list[int] = []

    def close(self) -> None:
        self._leave(0)
        os.close(self._root)

    def write(self, change: Change, content: Iterable[bytes]) -> None:
        """Replaces whatever has this path, except that a directory keeps what it contains."""
        parent = self._parent(change.parts, is_created=True)
        assert parent is not None
        name = change.parts[-1]
        if change.kind == DIRECTORY:
            _make_directory(parent, name, change.mode)
            return
        if change.kind == LINK:
            _remove(parent, name)
            os.symlink(change.target, name, dir_fd=parent)
            date = change.modified_at
            os.utime(name, (date, date), dir_fd=parent, follow_symlinks=False)
        else:
            _write_file(parent, change, content)

    def remove(self, parts: Sequence[bytes]) -> None:
        parent = self._parent(parts, is_created=False)
        if parent is not None:
            _remove(parent, parts[-1])

    def is_in_lower(self, parts: Sequence[bytes]) -> bool:
        return bool(self._lower) and os.path.lexists(self._lower_path(parts))

    def _parent(self, parts: Sequence[bytes], *, is_created: bool) -> int | None:
        """A descriptor of the directory that contains the path, or None if there is none."""
        parents = list(parts[:-1])
        depth = 0
        for ours, name in zip(self._names, parents, strict=False):
            if ours != name:
                break
            depth += 1
        self._leave(depth)
        for name in parents[depth:]:
            if not self._enter(name, is_created=is_created):
                return None
        return self._descriptors[-1] if self._descriptors else self._root

    def _leave(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._descriptors.pop())

    def _enter(self, name: bytes, *, is_created: bool) -> bool:
        current = self._descriptors[-1] if self._descriptors else self._root
        path = [*self._names, name]
        try:
            descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=current)
        except FileNotFoundError:
            if not is_created:
                return False
            self.created_parents += 1
            descriptor = _make_directory(current, name, self._lower_mode(path), is_kept_open=True)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            through = printable_path(b"/".join(path))
            raise ChangesRefused(f"a path leads through a link or a file: {through}") from None
        self._names.append(name)
        self._descriptors.append(descriptor)
        return True

    def _lower_mode(self, parts: Sequence[bytes]) -> int:
        if self._lower:
            with contextlib.suppress(OSError):
                mode = os.lstat(self._lower_path(parts)).st_mode
                if stat.S_ISDIR(mode):
                    return mode & 0o777
        return 0o755

    def _lower_path(self, parts: Sequence[bytes]) -> bytes:
        return os.path.join(self._lower, *parts)


def _make_directory(parent: int, name: bytes, mode: int, *, is_kept_open: bool = False) -> int:
    """The descriptor is closed unless it is kept open."""
    try:
        os.mkdir(name, _MIN_DIRECTORY_MODE, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, _MIN_DIRECTORY_MODE, dir_fd=parent)
    descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
    os.fchmod(descriptor, mode | _MIN_DIRECTORY_MODE)
    if not is_kept_open:
        os.close(descriptor)
    return descriptor


def _write_file(parent: int, change: Change, content: Iterable[bytes]) -> None:
    descriptor = _open_file(parent, change.parts[-1])
    try:
        for chunk in content:
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
        os.ftruncate(descriptor, change.size)
        os.fchmod(descriptor, change.mode | _MIN_FILE_MODE)
        os.utime(descriptor, (change.modified_at, change.modified_at))
    finally:
        os.close(descriptor)


def _open_file(parent: int, name: bytes) -> int:
    """An existing file is overwritten if it has no other name.

    On ext4, that takes a tenth of the time of a new file, which needs blocks on the disk.
    """
    try:
        status = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return os.open(name, _NEW_FILE_FLAGS, 0o600, dir_fd=parent)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        with contextlib.suppress(OSError):
            return os.open(name, _FILE_FLAGS, dir_fd=parent)
    _remove(parent, name)
    return os.open(name, _NEW_FILE_FLAGS, 0o600, dir_fd=parent)


def _remove(parent: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
        try:
            for child in os.listdir(descriptor):
                _remove(descriptor, os.fsencode(child))
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=parent)
