"""A directory or a zip on this machine, in the layout of OSV's bucket. Blocking: for threads.

Without folders for ecosystems it gives all records for each: they tell what they are about.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from agentjobs.advisories.sources.archive import ARCHIVE_ERRORS, Archive
from agentjobs.advisories.sources.source import (
    MAX_ARCHIVE_BYTES,
    MAX_LIST_BYTES,
    MAX_RECORD_BYTES,
    FeedWarning,
    Piece,
    Record,
    SourceError,
    SourceNotFound,
)
from agentjobs.settings.registries import ECOSYSTEMS

_ALL = "all.zip"
_CHANGES = "modified_id.csv"
_COPIED_BYTES = 1024**2


class Place(Protocol):
    def mark(self, ecosystem: str) -> str:
        """Another one whenever something changed. Raises SourceNotFound."""

    def pieces(self, ecosystem: str) -> tuple[int | None, Iterator[Piece]]:
        """How many there are, as far as that is known, and all of them."""

    def piece(self, ecosystem: str, identifier: str) -> Piece:
        """Raises SourceNotFound."""

    def changes(self, ecosystem: str) -> Iterator[str] | None:
        """The lines of the list of changes, if there is one."""

    def close(self) -> None: ...


def open_location(path: Path, work_dir: Path) -> Place:
    try:
        if path.is_dir():
            return Directory(path)
        return ZipFile(path, work_dir)
    except OSError as error:
        raise _unreadable(path, error) from None


class Directory:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[BinaryIO] = []
        self._is_flat = not any((path / name).is_dir() for name in ECOSYSTEMS)

    def mark(self, ecosystem: str) -> str:
        folder = self._folder(ecosystem)
        try:
            return _file_mark((folder / _ALL).stat())
        except OSError:
            entries = self._entries(folder)
        if not entries:
            raise _nothing(self._path, ecosystem)
        seen = hashlib.sha256()
        for entry in entries:
            seen.update(f"{entry.name}\0{_entry_mark(entry)}\n".encode(errors="replace"))
        return seen.hexdigest()

    def pieces(self, ecosystem: str) -> tuple[int | None, Iterator[Piece]]:
        folder = self._folder(ecosystem)
        packed = folder / _ALL
        if not packed.is_file():
            entries = self._entries(folder)
            return len(entries), (_read(Path(entry)) for entry in entries)
        try:
            file = packed.open("rb")
        except OSError as error:
            raise _unreadable(packed, error) from None
        self._open.append(file)
        archive = Archive(file, str(packed))
        return archive.count(), archive.pieces()

    def piece(self, ecosystem: str, identifier: str) -> Piece:
        path = self._folder(ecosystem) / f"{identifier}.json"
        if not path.is_file():
            raise SourceNotFound(f"{path} is not there")
        return _read(path)

    def changes(self, ecosystem: str) -> Iterator[str] | None:
        path = self._path / ecosystem / _CHANGES
        try:
            self._open.append(file := path.open("rb"))
        except OSError:
            return None
        return _lines(file)

    def close(self) -> None:
        for file in self._open:
            file.close()

    def _folder(self, ecosystem: str) -> Path:
        return self._path if self._is_flat else self._path / ecosystem

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                records = [one for one in found if _is_record(one)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(folder, error) from None
        return sorted(records, key=lambda entry: entry.name)


class ZipFile:
    def __init__(self, path: Path, work_dir: Path) -> None:
        self._path = path
        self._work_dir = work_dir
        self._open: list[BinaryIO] = [path.open("rb")]
        try:
            self._archive = Archive(self._open[0], str(path))
        except BaseException:
            self.close()
            raise
        self._folders = {name.partition("/")[0] for name in self._archive.names() if "/" in name}
        self._is_flat = self._folders.isdisjoint(ECOSYSTEMS)

    def mark(self, ecosystem: str) -> str:
        if not self._is_flat and ecosystem not in self._folders:
            raise _nothing(self._path, ecosystem)
        return _file_mark(os.fstat(self._open[0].fileno()))

    def pieces(self, ecosystem: str) -> tuple[int | None, Iterator[Piece]]:
        archive, prefix = self._archive, "" if self._is_flat else f"{ecosystem}/"
        try:
            packed = archive.open(f"{ecosystem}/{_ALL}")
        except KeyError:
            return archive.count(prefix), archive.pieces(prefix)
        inner = Archive(self._unpacked(packed, ecosystem), f"{self._path}: {ecosystem}/{_ALL}")
        return inner.count(), inner.pieces()

    def piece(self, ecosystem: str, identifier: str) -> Piece:
        name = f"{ecosystem}/{identifier}.json"
        piece = self._archive.piece(name)
        if piece is None:
            raise SourceNotFound(f"{self._path} has no {name}")
        return piece

    def changes(self, ecosystem: str) -> Iterator[str] | None:
        try:
            return _lines(self._archive.open(f"{ecosystem}/{_CHANGES}"))
        except KeyError:
            return None

    def close(self) -> None:
        for file in self._open:
            file.close()

    def _unpacked(self, packed: BinaryIO, ecosystem: str) -> BinaryIO:
        """A zip within a zip cannot be read in place; this copy has no name and ends with us."""
        copy = tempfile.TemporaryFile(dir=self._work_dir)  # noqa: SIM115 - closed with the place
        self._open.append(copy)
        left = MAX_ARCHIVE_BYTES
        try:
            while chunk := packed.read(_COPIED_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise SourceError(f"{self._path}: {ecosystem}/{_ALL} is too large to be read")
                copy.write(chunk)
        except ARCHIVE_ERRORS as error:
            raise SourceError(f"{self._path}: {ecosystem}/{_ALL}: {error}") from None
        return copy


def _read(path: Path) -> Piece:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_RECORD_BYTES + 1)
    except OSError as error:
        return FeedWarning(path.name, f"it cannot be read: {error.strerror}")
    if len(content) > MAX_RECORD_BYTES:
        return FeedWarning(path.name, "it is larger than a record may be")
    return Record(path.name, content)


def _lines(file: BinaryIO) -> Iterator[str]:
    try:
        data = file.read(MAX_LIST_BYTES)
    except ARCHIVE_ERRORS as error:
        raise SourceError(f"{_CHANGES}: {error}") from None
    return iter(data.decode("utf-8", "replace").splitlines())


def _is_record(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.name.endswith(".json") and entry.is_file()
    except OSError:
        # Links in a circle, say: whoever reads it tells.
        return True


def _entry_mark(entry: os.DirEntry[str]) -> str:
    try:
        return _file_mark(entry.stat())
    except OSError:
        # Others may renew the directory at this moment.
        return "gone"


def _file_mark(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns}-{stat.st_size}"


def _nothing(path: Path, ecosystem: str) -> SourceNotFound:
    return SourceNotFound(
        f"{path} holds nothing for {ecosystem}: neither {ecosystem}/{_ALL} nor {ecosystem}/*.json"
    )


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{path} cannot be read: {error.strerror or error}")
