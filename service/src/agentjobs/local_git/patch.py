"""Parses the output of `git diff-tree --raw --numstat -p -z` into files and numbered lines.

Keeps a bounded number of lines; counts are complete. Runs nothing.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec

from agentjobs.local_git.unified_diff import PatchedFile

LineKind = Literal["context", "added", "removed", "hunk", "note"]
Counts = tuple[int, int]

_CHANGES = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type changed",
}
_FILE_START = b"diff --git "
_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NOTED_HEADERS = (b"old mode ", b"new mode ", b"new file mode 12", b"new file mode 16")
_BINARY = b"Binary files "
_BINARY_SECTION = b"\n" + _BINARY
_MAX_LINE_CHARACTERS = 4_000
_INDEX = re.compile(r"^index [0-9a-f]+\.\.([0-9a-f]+)", re.MULTILINE)
# The blob ID of files in a stored diff that are binary or only renamed.
_UNKNOWN_BLOB_ID = "0"


class DiffBounds(msgspec.Struct, frozen=True):
    """How much of a diff is kept; what is left out is still listed and counted."""

    files: int = 500
    lines: int = 20_000
    file_lines: int = 1_500
    file_bytes: int = 512 * 1024


class DiffLine(msgspec.Struct, frozen=True):
    kind: LineKind
    text: str
    old_number: int | None = None
    new_number: int | None = None


class FileDiff(msgspec.Struct, frozen=True):
    """`complete` is False if `lines` are not all; `counted` is False if the counts are unknown."""

    path: str
    old_path: str | None
    change: str
    lines: tuple[DiffLine, ...]
    additions: int
    deletions: int
    complete: bool = True
    counted: bool = True
    # Identifies the new content; abbreviated in a stored diff.
    blob_id: str = ""


class Diff(msgspec.Struct, frozen=True):
    """`complete` is False if the diff was too large to read completely; the counts are complete."""

    files: tuple[FileDiff, ...]
    changed_files: int
    complete: bool
    additions: int
    deletions: int


class Entry(msgspec.Struct, frozen=True):
    """One record of the list, which is the only place where a path is unambiguous.

    `counts` is None if git did not count: the file is binary or too large.
    """

    change: str
    old_name: bytes | None
    name: bytes
    counts: Counts | None = None
    blob_id: str = ""

    @property
    def path(self) -> str:
        return _text(self.name)

    @property
    def old_path(self) -> str | None:
        return None if self.old_name is None else _text(self.old_name)

    @property
    def sections(self) -> int:
        """A file that becomes a symlink has a section for the deletion and one for the new file."""
        return 2 if self.change == "type changed" else 1


def parse_diff(
    output: bytes,
    *,
    complete: bool,
    bounds: DiffBounds = DiffBounds(),  # noqa: B008 - frozen
) -> Diff:
    """`complete` says whether `output` is complete; a truncated last line is dropped."""
    listing, separator, patch = output.partition(b"\0\0")
    if not separator and not complete:
        listing = listing[: listing.rfind(b"\0:") + 1]
    entries = parse_entries(listing)
    sections = _sections(patch if complete else patch[: patch.rfind(b"\n") + 1])
    files = []
    position = 0
    lines_left = bounds.lines
    for entry in entries:
        own = sections[position : position + entry.sections]
        position += entry.sections
        # The last section of a truncated patch may be truncated too, and later ones are missing.
        whole = complete or position < len(sections)
        file_patch = _FilePatch(entry, own, whole)
        files.append(file_patch.parse(bounds, lines_left))
        lines_left -= len(files[-1].lines)
    return _bound(files, complete, bounds)


def diff_of_files(
    files: Sequence[PatchedFile],
    *,
    complete: bool,
    bounds: DiffBounds = DiffBounds(),  # noqa: B008 - frozen
) -> Diff:
    """A unified diff for a page; `complete` says whether `files` are complete."""
    shown: list[FileDiff] = []
    lines_left = bounds.lines
    for file in files:
        old_name = None if file.previous_path is None else file.previous_path.encode()
        counts = (file.additions, file.deletions)
        index = _INDEX.search(file.patch or "")
        blob_id = index[1] if index else _UNKNOWN_BLOB_ID
        entry = Entry(file.status, old_name, file.path.encode(), counts, blob_id)
        sections = [_BINARY_SECTION] if file.patch is None else _sections(file.patch.encode())
        patch = _FilePatch(entry, sections, complete or file is not files[-1])
        shown.append(patch.parse(bounds, lines_left))
        lines_left -= len(shown[-1].lines)
    return _bound(shown, complete, bounds)


def _bound(files: Sequence[FileDiff], complete: bool, bounds: DiffBounds) -> Diff:
    included = tuple(files[: bounds.files])
    return Diff(
        files=included,
        changed_files=len(files),
        complete=complete
        and len(included) == len(files)
        and all(file.complete for file in included),
        additions=sum(file.additions for file in files),
        deletions=sum(file.deletions for file in files),
    )


def parse_entries(listing: bytes) -> list[Entry]:
    """The files of `--raw --numstat -z`, in git's order; `--raw` alone has no counts."""
    fields = iter(listing.split(b"\0"))
    entries: list[Entry] = []
    counts: dict[bytes, Counts] = {}
    for header in fields:
        if header.startswith(b":"):
            *_, blob_id, status = ["", *header.decode("ascii", "replace").split(" ")]
            first = next(fields, b"")
            second = next(fields, b"") if status[:1] in {"R", "C"} else None
            old_name, name = (None, first) if second is None else (first, second)
            if name:
                change = _CHANGES.get(status[:1], "modified")
                entries.append(Entry(change, old_name, name, None, blob_id))
        elif header:
            added, deleted, name = header.split(b"\t", 2)
            name = name or (next(fields, b""), next(fields, b""))[1]
            if added.isdigit():
                counts[name] = (int(added), int(deleted))
    return [msgspec.structs.replace(entry, counts=counts.get(entry.name)) for entry in entries]


def _sections(patch: bytes) -> list[bytes]:
    """The section of each file. Content cannot start one: its lines start with ' +-\\'."""
    parts = (b"\n" + patch).split(b"\n" + _FILE_START)
    return parts[1:]


class _FilePatch(msgspec.Struct, frozen=True):
    entry: Entry
    sections: list[bytes]
    whole: bool

    def parse(self, bounds: DiffBounds, lines_left: int) -> FileDiff:
        counts = self.entry.counts
        lines, all_read = self._lines(bounds, lines_left)
        complete = self.whole and all_read
        counted = counts is not None or complete
        return FileDiff(
            path=self.entry.path,
            old_path=self.entry.old_path,
            change=self.entry.change,
            lines=lines,
            additions=counts[0] if counts else sum(line.kind == "added" for line in lines),
            deletions=counts[1] if counts else sum(line.kind == "removed" for line in lines),
            complete=complete,
            counted=counted,
            blob_id=self.entry.blob_id,
        )

    def _lines(self, bounds: DiffBounds, lines_left: int) -> tuple[tuple[DiffLine, ...], bool]:
        max_lines = max(0, min(bounds.file_lines, lines_left))
        lines: list[DiffLine] = []
        all_read = True
        for section in self.sections:
            included = section[: bounds.file_bytes]
            if len(included) < len(section):
                included, all_read = included[: included.rfind(b"\n") + 1], False
            # A few lines precede the first hunk; no more than needed are split.
            numbered = list(
                islice(
                    _number_lines(included.split(b"\n", max_lines + 16)), max_lines + 1 - len(lines)
                )
            )
            lines += numbered
        return tuple(lines[:max_lines]), all_read and len(lines) <= max_lines


def _number_lines(section: list[bytes]) -> Iterator[DiffLine]:
    old = new = 0
    in_hunk = False
    for line in section:
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            in_hunk = True
            yield DiffLine("hunk", _text(line))
        elif not in_hunk:
            if line.startswith(_NOTED_HEADERS):
                yield DiffLine("note", _text(line))
            elif line.startswith(_BINARY):
                yield DiffLine("note", "Binary or large file not shown")
        elif line.startswith(b"+"):
            yield DiffLine("added", _text(line[1:]), None, new)
            new += 1
        elif line.startswith(b"-"):
            yield DiffLine("removed", _text(line[1:]), old, None)
            old += 1
        elif line.startswith(b" "):
            yield DiffLine("context", _text(line[1:]), old, new)
            old, new = old + 1, new + 1
        elif line.startswith(b"\\"):
            yield DiffLine("note", _text(line[2:]))


def _text(raw: bytes) -> str:
    """Truncated first: decoding a line of many megabytes is slow."""
    text = raw[: 4 * (_MAX_LINE_CHARACTERS + 1)].decode("utf-8", "replace")
    return text if len(text) <= _MAX_LINE_CHARACTERS else f"{text[:_MAX_LINE_CHARACTERS]}…"
