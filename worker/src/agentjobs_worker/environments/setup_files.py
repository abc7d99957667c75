"""Walks the files that setup left. Does not trust them, follows no link, and has no recursion."""

import os
import stat
from collections.abc import Iterator

_READABLE_DIRECTORY = stat.S_IRUSR | stat.S_IXUSR
_READABLE_FILE = stat.S_IRUSR


def walk(root: bytes) -> Iterator[list[os.DirEntry[bytes]]]:
    """The entries of one directory after the other. Raises OSError."""
    directories = [root]
    while directories:
        with os.scandir(directories.pop()) as listed:
            entries = list(listed)
        yield entries
        directories += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def make_readable(root: bytes) -> None:
    """For the service's user, who owns them unless it is root. Blocking; raises OSError."""
    _add_mode(root, _READABLE_DIRECTORY)
    for entries in walk(root):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _add_mode(entry.path, _READABLE_DIRECTORY)
            elif entry.is_file(follow_symlinks=False):
                _add_mode(entry.path, _READABLE_FILE)
            elif entry.name == b".gitignore" and not entry.is_symlink():
                # git would wait for a writer.
                os.unlink(entry.path)  # noqa: PTH108 - bytes


def _add_mode(path: bytes, bits: int) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & bits != bits:
        os.chmod(path, mode | bits)  # noqa: PTH101 - bytes
