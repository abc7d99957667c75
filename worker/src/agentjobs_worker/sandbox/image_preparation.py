"""Prepares the merged root directory of an image for bwrap: mount points, accounts, hosts.

Imported by `layer_mounter`, so it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import stat

# Importing `typing` takes as long as a sandbox takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentjobs_worker.sandbox.layers import Root

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_MAX_ACCOUNTS_BYTES = 1024 * 1024


def prepare_image(root: Root, shown: Mapping[str, bool], uid: int, gid: int) -> None:
    """bwrap follows links to its mount points, and an image could lead it out with them."""
    image = _Image(os.open(root["name"], DIRECTORY | os.O_CLOEXEC), uid, gid)
    for path in root["mount_points"]:
        image.make_directory(path)
    for path, is_directory in shown.items():
        if is_directory:
            image.make_directory(path)
        elif not image.has_file(path):
            image.write(path, b"")
    for path, content in root["files"].items():
        image.write(path, content)
    for path, lines in root["accounts"].items():
        names = tuple(line.partition(b":")[0] + b":" for line in lines.splitlines())
        others = image.read(path).splitlines(keepends=True)
        image.write(path, lines + b"".join(line for line in others if not line.startswith(names)))


class _Image:
    """Changes the merged root directory. Follows no link, and replaces those in its way."""

    def __init__(self, descriptor: int, uid: int, gid: int) -> None:
        self._descriptor = descriptor
        self._owner = (uid, gid)

    def make_directory(self, path: str) -> int:
        parent = self._descriptor
        for name in path.strip("/").split("/"):
            child = self._enter(parent, name)
            if parent != self._descriptor:
                os.close(parent)
            parent = child
        return parent

    def has_file(self, path: str) -> bool:
        parent, name = self._parent(path)
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False
        finally:
            os.close(parent)

    def read(self, path: str) -> bytes:
        """Empty if it is not an ordinary file."""
        parent, name = self._parent(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=parent)
        except OSError:
            return b""
        finally:
            os.close(parent)
        with open(descriptor, "rb") as file:
            is_ordinary = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(_MAX_ACCOUNTS_BYTES) if is_ordinary else b""

    def write(self, path: str, content: bytes) -> None:
        parent, name = self._parent(path)
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise OSError(f"the image has a directory {path}: {error.strerror}") from None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o644, dir_fd=parent)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)
            os.fchown(descriptor, *self._owner)
            file.write(content)
        os.close(parent)

    def _parent(self, path: str) -> tuple[int, str]:
        directory, _, name = path.rpartition("/")
        if directory:
            return self.make_directory(directory), name
        return os.dup(self._descriptor), name

    def _enter(self, parent: int, name: str) -> int:
        try:
            return os.open(name, DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError:
            os.unlink(name, dir_fd=parent)
        os.mkdir(name, 0o755, dir_fd=parent)
        descriptor = os.open(name, DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        os.chown(name, *self._owner, dir_fd=parent, follow_symlinks=False)
        return descriptor
