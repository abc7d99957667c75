"""Reads a tar stream that a hostile pod sends: files, directories and symbolic links, nothing else.

Pure: touches no file. Runs in the process of `archive`, which has no installed packages.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from agentjobs_runtime.safe_text import ellipsize, escape_unprintable

BLOCK_BYTES = 512
CHUNK_BYTES = 1024 * 1024
MAX_PATH_BYTES = 4_095
MAX_NAME_BYTES = 255
FILE = b"0"
LINK = b"2"
DIRECTORY = b"5"
_KINDS = {b"\0": FILE, FILE: FILE, LINK: LINK, DIRECTORY: DIRECTORY}
_LONG_NAME = b"L"
_LONG_TARGET = b"K"
_MAGIC = b"ustar  \0"
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")
_ZEROS = bytes(BLOCK_BYTES)
# Until 2100: a file system may not store a later date.
_MAX_DATE = 4_102_444_800
# Zeros after the end: programs that write records fill the last one.
_MAX_PADDING_BYTES = 1024 * 1024
_MAX_SHOWN_CHARACTERS = 200


class ArchiveRefused(Exception):
    """What is wrong with the archive, as the end of a sentence."""


class Entry(NamedTuple):
    """`parts` is the path, empty for the directory itself. `target` is that of a link."""

    kind: bytes
    parts: tuple[bytes, ...]
    mode: int
    size: int
    modified_at: int
    target: bytes


class TarStream:
    """Iterate over the entries, and read the content of each file before the next entry."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._unread = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Entry]:
        long_fields: dict[bytes, bytes] = {}
        while (header := self._header()) is not None:
            kind = header[156:157]
            size = _size(header[124:136])
            if kind in (_LONG_NAME, _LONG_TARGET):
                if kind in long_fields:
                    raise ArchiveRefused("an entry has two names")
                long_fields[kind] = self._long_field(size)
                continue
            yield self._entry(header, kind, size, long_fields)
            long_fields = {}
        if long_fields:
            raise ArchiveRefused("it ends too early")
        self._check_end()

    def content(self) -> Iterator[bytes]:
        """The content of the file that was the last entry."""
        while self._unread:
            chunk = self._read(min(self._unread, CHUNK_BYTES))
            self._unread -= len(chunk)
            yield chunk
        self._read(self._padding)
        self._padding = 0

    def _header(self) -> bytes | None:
        """None at the end."""
        for _ in self.content():
            pass
        header = self._read(BLOCK_BYTES)
        if header == _ZEROS:
            if self._read(BLOCK_BYTES) != _ZEROS:
                raise ArchiveRefused("it has an empty header")
            return None
        # The checksum counts its own field as spaces.
        checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if header[257:265] != _MAGIC or _octal(header[148:156]) != checksum:
            raise ArchiveRefused("it is damaged, or not in the format of GNU tar")
        return header

    def _entry(
        self, header: bytes, kind: bytes, size: int, long_fields: dict[bytes, bytes]
    ) -> Entry:
        name = long_fields.get(_LONG_NAME, _text(header[:100]))
        if kind not in _KINDS:
            raise ArchiveRefused(
                f"it contains a special file or a hard link: {printable_path(name)}"
            )
        kind = _KINDS[kind]
        target = long_fields.get(_LONG_TARGET, _text(header[157:257]))
        if (kind != FILE and size) or (kind == LINK) != bool(target):
            raise ArchiveRefused(f"an entry contradicts itself: {printable_path(name)}")
        self._unread, self._padding = size, -size % BLOCK_BYTES
        return Entry(
            kind=kind,
            parts=split_path(name.removesuffix(b"/") if kind == DIRECTORY else name, kind),
            mode=_octal(header[100:108]) & 0o777,
            size=size,
            modified_at=_date(header[136:148]),
            target=target,
        )

    def _long_field(self, size: int) -> bytes:
        if not 1 < size <= MAX_PATH_BYTES + 1:
            raise ArchiveRefused("a path or the target of a link is too long")
        value = self._read(size)
        self._read(-size % BLOCK_BYTES)
        if value.find(b"\0") != size - 1:
            raise ArchiveRefused("a path contains a NUL")
        return value[:-1]

    def _check_end(self) -> None:
        padding = self._stream.read(_MAX_PADDING_BYTES)
        if padding.strip(b"\0") or len(padding) == _MAX_PADDING_BYTES:
            raise ArchiveRefused("it continues after its end")

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ArchiveRefused("it ends too early")
        return data


def split_path(path: bytes, kind: bytes = FILE) -> tuple[bytes, ...]:
    """Relative and normal, apart from a leading `./`. Only a directory may be the root."""
    if kind == DIRECTORY and path == b".":
        return ()
    if len(path) > MAX_PATH_BYTES:
        raise ArchiveRefused(f"a path is too long: {printable_path(path)}")
    parts = tuple(path.removeprefix(b"./").split(b"/"))
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise ArchiveRefused(f"a path is not relative to its directory: {printable_path(path)}")
    if any(len(part) > MAX_NAME_BYTES for part in parts):
        raise ArchiveRefused(f"a path has a name that is too long: {printable_path(path)}")
    return parts


def printable_path(path: bytes) -> str:
    text = escape_unprintable(path.decode("utf-8", "backslashreplace"))
    return ellipsize(text, _MAX_SHOWN_CHARACTERS)


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _octal(field: bytes) -> int:
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise ArchiveRefused("it has an invalid number")
    return int(match[1], 8)


def _size(field: bytes) -> int:
    # Sizes from 8 GiB on are binary numbers.
    return int.from_bytes(field[1:], "big") if field[0] == 0x80 else _octal(field)


def _date(field: bytes) -> int:
    """The modification time of an entry: a wrong one is harmless."""
    if field[0] == 0xFF:
        return 0
    return min(_size(field), _MAX_DATE)
