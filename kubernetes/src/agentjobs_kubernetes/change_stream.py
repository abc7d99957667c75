"""Reads the changes that a hostile pod sends: files, directories, symbolic links, and what is gone.

Each is a header, a path, the target of a link, and the content of a file. Touches no file. Runs in
the process of `apply_changes`, which has no installed packages.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from agentjobs_runtime.safe_text import ellipsize, escape_unprintable

# Kind, mode, size of the content, date, and the lengths of path and target.
HEADER = struct.Struct(">cIQqHH")
FILE = b"F"
DIRECTORY = b"D"
LINK = b"L"
REMOVED = b"R"
MAX_PATH_BYTES = 4_095
MAX_NAME_BYTES = 255

_CHUNK_BYTES = 1024 * 1024
# Until 2100: a file system may not store a later date.
_MAX_DATE = 4_102_444_800
_MAX_SHOWN_CHARACTERS = 200


class ChangesRefused(Exception):
    """What is wrong with the changes, as the end of a sentence."""


class Change(NamedTuple):
    """`parts` is the path. `target` is that of a link."""

    kind: bytes
    parts: tuple[bytes, ...]
    mode: int
    size: int
    modified_at: int
    target: bytes


class ChangeStream:
    """Iterate over the changes, and read the content of each file before the next one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._unread = 0

    def __iter__(self) -> Iterator[Change]:
        while header := self._stream.read(HEADER.size):
            yield self._change(header)
            for _ in self.content():
                pass

    def content(self) -> Iterator[bytes]:
        """The content of the file that was the last change."""
        while self._unread:
            chunk = self._read(min(self._unread, _CHUNK_BYTES))
            self._unread -= len(chunk)
            yield chunk

    def _change(self, header: bytes) -> Change:
        if len(header) < HEADER.size:
            raise ChangesRefused("it ends too early")
        kind, mode, size, date, path_bytes, target_bytes = HEADER.unpack(header)
        path, target = self._read(path_bytes), self._read(target_bytes)
        if kind not in (FILE, DIRECTORY, LINK, REMOVED):
            raise ChangesRefused(f"it contains a special file: {printable_path(path)}")
        if (kind != FILE and size) or (kind == LINK) != bool(target):
            raise ChangesRefused(f"an entry contradicts itself: {printable_path(path)}")
        if b"\0" in target or len(target) > MAX_PATH_BYTES:
            raise ChangesRefused(f"a link has an invalid target: {printable_path(path)}")
        self._unread = size
        modified_at = max(0, min(date, _MAX_DATE))
        return Change(kind, _split_path(path), mode & 0o777, size, modified_at, target)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ChangesRefused("it ends too early")
        return data


def _split_path(path: bytes) -> tuple[bytes, ...]:
    """Relative and normal."""
    if len(path) > MAX_PATH_BYTES:
        raise ChangesRefused(f"a path is too long: {printable_path(path)}")
    parts = tuple(path.split(b"/"))
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise ChangesRefused(f"a path is not relative to its directory: {printable_path(path)}")
    if any(len(part) > MAX_NAME_BYTES for part in parts):
        raise ChangesRefused(f"a path has a name that is too long: {printable_path(path)}")
    return parts


def printable_path(path: bytes) -> str:
    text = escape_unprintable(path.decode("utf-8", "backslashreplace"))
    return ellipsize(text, _MAX_SHOWN_CHARACTERS)
