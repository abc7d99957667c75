"""Reads records out of a zip that anybody may have made. Nothing of it is ever written by name.

Blocking: for threads. An entry that cannot be trusted is left out with a reason; an archive that
cannot be is refused whole.
"""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from agentjobs.advisories.sources.source import (
    MAX_RECORD_BYTES,
    FeedWarning,
    Piece,
    Record,
    SourceError,
)

# Texts shrink to a tenth; what shrinks to less than a hundredth was made to burst.
_MAX_RATIO = 100
_HARMLESS_BYTES = 64 * 1024**2
# Of its table of contents alone: each entry of it becomes an object in memory.
_MAX_TABLE_BYTES = 64 * 1024**2
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_END_MARK = b"PK\x05\x06", b"PK\x06\x06"
_LARGE_TABLE_SIZE_AT = 40
_LONGEST_COMMENT = 65_535
_ENCRYPTED = 0x1
# What reading a broken archive raises.
ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
)


class Archive:
    """Open for as long as its file is; `name` is how messages call it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        size = file.seek(0, io.SEEK_END)
        try:
            if _table_bytes(file, size) > _MAX_TABLE_BYTES:
                raise SourceError(f"{name}: its table of contents is too large to be read")
            self._zip = zipfile.ZipFile(file)
        except (*ARCHIVE_ERRORS, struct.error) as error:
            raise SourceError(f"{name} is no whole zip archive: {error}") from None
        unpacked = sum(entry.file_size for entry in self._zip.infolist())
        if unpacked > max(_MAX_RATIO * size, _HARMLESS_BYTES):
            raise SourceError(f"{name}: {size} bytes would become {unpacked}, which no feed does")

    def names(self) -> list[str]:
        return self._zip.namelist()

    def count(self, prefix: str = "") -> int:
        return sum(_is_record(name, prefix) for name in self._zip.namelist())

    def pieces(self, prefix: str = "") -> Iterator[Piece]:
        """Every record below the prefix, and every entry whose name leads elsewhere."""
        for entry in self._zip.infolist():
            if _leads_out(entry.filename):
                yield _left_out(entry.filename, "its name leads out of the archive")
            elif _is_record(entry.filename, prefix):
                yield self._read(entry)

    def piece(self, name: str) -> Piece | None:
        """None if there is no such entry."""
        try:
            return self._read(self._zip.getinfo(name))
        except KeyError:
            return None

    def open(self, name: str) -> BinaryIO:
        """Raises KeyError if there is no such entry, SourceError if it cannot be read."""
        entry = self._zip.getinfo(name)
        if reason := _why_refused(entry):
            raise SourceError(f"{self._name}: {name}: {reason}")
        try:
            return cast("BinaryIO", self._zip.open(entry))
        except ARCHIVE_ERRORS as error:
            raise SourceError(f"{self._name}: {name}: {error}") from None

    def _read(self, entry: zipfile.ZipInfo) -> Piece:
        reason = _why_refused(entry)
        if reason is None and entry.file_size > MAX_RECORD_BYTES:
            reason = f"it has {entry.file_size} bytes, more than a record may have"
        if reason is not None:
            return _left_out(entry.filename, reason)
        try:
            with self._zip.open(entry) as file:
                # The whole of it, so that its checksum is looked at.
                return Record(entry.filename, file.read())
        except ARCHIVE_ERRORS as error:
            return _left_out(entry.filename, f"it is damaged: {error}")


def _left_out(name: str, reason: str) -> FeedWarning:
    return FeedWarning(name[:300], reason)


def _is_record(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(".json")


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return name.startswith("/") or name[1:2] == ":" or ".." in parts or "\\" in name


def _why_refused(entry: zipfile.ZipInfo) -> str | None:
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is a link or another special file"
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in a way that feeds do not use"
    return None


def _table_bytes(file: BinaryIO, size: int) -> int:
    """What the end of the archive says; the size that is read into memory at once."""
    tail_at = max(0, size - _LONGEST_COMMENT - 2 * _END.size - 56)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(_END_MARK)
    if at < 0:
        raise zipfile.BadZipFile("its end is missing")
    table_bytes: int = _END.unpack_from(tail, at)[5]
    large_at = tail.rfind(_LARGE_END_MARK, 0, at)
    if large_at >= 0:
        table_bytes = max(
            struct.unpack_from("<Q", tail, large_at + _LARGE_TABLE_SIZE_AT)[0],
            0 if table_bytes == 0xFFFFFFFF else table_bytes,
        )
    return table_bytes
