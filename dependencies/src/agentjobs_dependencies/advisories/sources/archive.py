"""Reads records from an untrusted zip archive. Names are never paths on disk, and links only data.

Blocking; runs in threads. Unreadable entries are left out with a warning, zip bombs are rejected.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from agentjobs_dependencies.advisories.sources.source import (
    MAX_RECORD_BYTES,
    FeedItem,
    FeedWarning,
    Record,
    SourceError,
)

# Text compresses to about a tenth; a higher ratio indicates a zip bomb.
_MAX_RATIO = 100
_SMALL_BYTES = 64 * 1024**2
# Limit for the table of contents alone, whose entries become objects in memory.
_MAX_TABLE_BYTES = 64 * 1024**2
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_END_MARK = b"PK\x05\x06", b"PK\x06\x06"
_LARGE_TABLE_SIZE_AT = 40
_MAX_COMMENT_BYTES = 65_535
_ENCRYPTED = 0x1
# Exceptions that a broken archive causes.
ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
)


class Archive:
    """Usable while its file is open; `name` is used in messages."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        size = file.seek(0, io.SEEK_END)
        try:
            if _table_bytes(file, size) > _MAX_TABLE_BYTES:
                raise SourceError(f"{name}: its table of contents is too large")
            self._zip = zipfile.ZipFile(file)
        except (*ARCHIVE_ERRORS, struct.error) as error:
            raise SourceError(f"{name} is not a valid zip archive: {error}") from None
        unpacked = sum(entry.file_size for entry in self._zip.infolist())
        if unpacked > max(_MAX_RATIO * size, _SMALL_BYTES):
            raise SourceError(f"{name}: {size} bytes would expand to {unpacked}")

    def names(self) -> list[str]:
        return self._zip.namelist()

    def count(self, prefix: str = "") -> int:
        return sum(_is_record(name, prefix) for name in self._zip.namelist())

    def items(self, prefix: str = "") -> Iterator[FeedItem]:
        """Every record below the prefix."""
        for entry in self._zip.infolist():
            if _is_record(entry.filename, prefix):
                yield self._read(entry)

    def item(self, name: str) -> FeedItem | None:
        """None if there is no such entry."""
        try:
            return self._read(self._zip.getinfo(name))
        except KeyError:
            return None

    def open(self, name: str) -> BinaryIO:
        """Raises KeyError if there is no such entry, SourceError if it cannot be read."""
        entry = self._zip.getinfo(name)
        if reason := _rejection_reason(entry):
            raise SourceError(f"{self._name}: {name}: {reason}")
        try:
            return cast("BinaryIO", self._zip.open(entry))
        except ARCHIVE_ERRORS as error:
            raise SourceError(f"{self._name}: {name}: {error}") from None

    def _read(self, entry: zipfile.ZipInfo) -> FeedItem:
        reason = _rejection_reason(entry)
        if reason is None and entry.file_size > MAX_RECORD_BYTES:
            reason = f"it has {entry.file_size} bytes, more than the limit for records"
        if reason is not None:
            return _warning(entry.filename, reason)
        try:
            with self._zip.open(entry) as file:
                # Read completely, so that the checksum is verified.
                return Record(entry.filename, file.read())
        except ARCHIVE_ERRORS as error:
            return _warning(entry.filename, f"it is damaged: {error}")


def _warning(name: str, reason: str) -> FeedWarning:
    return FeedWarning(name[:300], reason)


def _is_record(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(".json")


def _rejection_reason(entry: zipfile.ZipInfo) -> str | None:
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "its compression method is not supported"
    return None


def _table_bytes(file: BinaryIO, size: int) -> int:
    """The size of the table of contents, according to the end of the archive."""
    tail_at = max(0, size - _MAX_COMMENT_BYTES - 2 * _END.size - 56)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(_END_MARK)
    if at < 0:
        raise zipfile.BadZipFile("the end record is missing")
    table_bytes: int = _END.unpack_from(tail, at)[5]
    large_at = tail.rfind(_LARGE_END_MARK, 0, at)
    if large_at >= 0:
        table_bytes = max(
            struct.unpack_from("<Q", tail, large_at + _LARGE_TABLE_SIZE_AT)[0],
            0 if table_bytes == 0xFFFFFFFF else table_bytes,
        )
    return table_bytes
