"""A local directory or zip in the layout of OSV's bucket. Blocking; runs in threads.

Without a folder per ecosystem, all records are returned for each; callers filter them.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from agentjobs_dependencies.advisories.sources.archive import ARCHIVE_ERRORS, Archive
from agentjobs_dependencies.advisories.sources.source import (
    MAX_ARCHIVE_BYTES,
    MAX_LIST_BYTES,
    MAX_RECORD_BYTES,
    FeedItem,
    FeedWarning,
    Record,
    SourceError,
    SourceNotFound,
)
from agentjobs_dependencies.formats.kinds import ECOSYSTEMS

_ALL = "all.zip"
_CHANGES = "modified_id.csv"
_CHUNK_BYTES = 1024**2


class Location(Protocol):
    def revision(self, ecosystem: str) -> str:
        """Changes whenever the records change. Raises SourceNotFound."""

    def items(self, ecosystem: str) -> tuple[int | None, Iterator[FeedItem]]:
        """The number of records, if known, and all records."""

    def item(self, ecosystem: str, identifier: str) -> FeedItem:
        """Raises SourceNotFound."""

    def changes(self, ecosystem: str) -> Iterator[str] | None:
        """The lines of the change list, if there is one."""

    def close(self) -> None: ...


def open_location(path: Path, work_dir: Path) -> Location:
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

    def revision(self, ecosystem: str) -> str:
        folder = self._folder(ecosystem)
        try:
            return _file_mark((folder / _ALL).stat())
        except OSError:
            entries = self._entries(folder)
        if not entries:
            raise _no_records(self._path, ecosystem)
        digest = hashlib.sha256()
        for entry in entries:
            digest.update(f"{entry.name}\0{_entry_mark(entry)}\n".encode(errors="replace"))
        return digest.hexdigest()

    def items(self, ecosystem: str) -> tuple[int | None, Iterator[FeedItem]]:
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
        return archive.count(), archive.items()

    def item(self, ecosystem: str, identifier: str) -> FeedItem:
        path = self._folder(ecosystem) / f"{identifier}.json"
        if not path.is_file():
            raise SourceNotFound(f"{path} does not exist")
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
            with os.scandir(folder) as entries:
                records = [entry for entry in entries if _is_record(entry)]
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

    def revision(self, ecosystem: str) -> str:
        if not self._is_flat and ecosystem not in self._folders:
            raise _no_records(self._path, ecosystem)
        return _file_mark(os.fstat(self._open[0].fileno()))

    def items(self, ecosystem: str) -> tuple[int | None, Iterator[FeedItem]]:
        archive, prefix = self._archive, "" if self._is_flat else f"{ecosystem}/"
        try:
            packed = archive.open(f"{ecosystem}/{_ALL}")
        except KeyError:
            return archive.count(prefix), archive.items(prefix)
        inner = Archive(self._copy_to_file(packed, ecosystem), f"{self._path}: {ecosystem}/{_ALL}")
        return inner.count(), inner.items()

    def item(self, ecosystem: str, identifier: str) -> FeedItem:
        name = f"{ecosystem}/{identifier}.json"
        item = self._archive.item(name)
        if item is None:
            raise SourceNotFound(f"{self._path} has no {name}")
        return item

    def changes(self, ecosystem: str) -> Iterator[str] | None:
        try:
            return _lines(self._archive.open(f"{ecosystem}/{_CHANGES}"))
        except KeyError:
            return None

    def close(self) -> None:
        for file in self._open:
            file.close()

    def _copy_to_file(self, packed: BinaryIO, ecosystem: str) -> BinaryIO:
        """A nested zip must be copied; the unnamed copy disappears with the process."""
        copy = tempfile.TemporaryFile(dir=self._work_dir)  # noqa: SIM115 - closed with the location
        self._open.append(copy)
        remaining = MAX_ARCHIVE_BYTES
        try:
            while chunk := packed.read(_CHUNK_BYTES):
                remaining -= len(chunk)
                if remaining < 0:
                    raise SourceError(f"{self._path}: {ecosystem}/{_ALL} is too large")
                copy.write(chunk)
        except ARCHIVE_ERRORS as error:
            raise SourceError(f"{self._path}: {ecosystem}/{_ALL}: {error}") from None
        return copy


def _read(path: Path) -> FeedItem:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_RECORD_BYTES + 1)
    except OSError as error:
        return FeedWarning(path.name, f"it cannot be read: {error.strerror}")
    if len(content) > MAX_RECORD_BYTES:
        return FeedWarning(path.name, "it exceeds the size limit of records")
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
        # For example a symlink loop; reading it reports the error.
        return True


def _entry_mark(entry: os.DirEntry[str]) -> str:
    try:
        return _file_mark(entry.stat())
    except OSError:
        # The directory may be changing at the same time.
        return "gone"


def _file_mark(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns}-{stat.st_size}"


def _no_records(path: Path, ecosystem: str) -> SourceNotFound:
    return SourceNotFound(
        f"{path} has nothing for {ecosystem}: neither {ecosystem}/{_ALL} nor {ecosystem}/*.json"
    )


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{path} cannot be read: {error.strerror or error}")
