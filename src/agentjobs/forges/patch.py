"""Reads what `git diff-tree --raw -p -z` prints into files and numbered lines. Runs nothing."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

LineKind = Literal["context", "added", "removed", "hunk", "note"]

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
_WORTH_NOTING = (
    b"old mode ",
    b"new mode ",
    b"new file mode 12",
    b"new file mode 16",
    b"Binary files ",
)
_LONGEST_LINE = 2_000


class DiffLine(msgspec.Struct, frozen=True):
    kind: LineKind
    text: str
    old_number: int | None = None
    new_number: int | None = None


class FileDiff(msgspec.Struct, frozen=True):
    path: str
    old_path: str | None
    change: str
    lines: tuple[DiffLine, ...]
    additions: int
    deletions: int


class Diff(msgspec.Struct, frozen=True):
    """`complete` is False when the change was too large to be read whole."""

    files: tuple[FileDiff, ...]
    changed_files: int
    complete: bool

    @property
    def additions(self) -> int:
        return sum(file.additions for file in self.files)

    @property
    def deletions(self) -> int:
        return sum(file.deletions for file in self.files)


class _Entry(msgspec.Struct, frozen=True):
    """One record of the raw part: the only place where a path is unambiguous."""

    change: str
    old_path: str | None
    path: str

    @property
    def sections(self) -> int:
        """A file that becomes a link is shown as one removed and one made."""
        return 2 if self.change == "type changed" else 1


def parse_diff(output: bytes, *, complete: bool) -> Diff:
    """`complete` says whether `output` is all of it; a cut last line is left out."""
    raw, separator, patch = output.partition(b"\0\0")
    if not separator and not complete:
        raw = raw[: raw.rfind(b"\0:") + 1]
    entries = list(_entries(raw))
    sections = _sections(patch if complete else patch[: patch.rfind(b"\n") + 1])
    files = []
    for entry in entries:
        lines = [line for _ in range(entry.sections) for line in next(sections, [])]
        if not lines and not complete:
            break
        files.append(_file(entry, lines))
    return Diff(tuple(files), len(entries), complete)


def _entries(raw: bytes) -> Iterator[_Entry]:
    fields = iter(raw.split(b"\0"))
    for header in fields:
        status = header.rpartition(b" ")[2][:1].decode("ascii", "replace")
        first = next(fields, b"")
        second = next(fields, b"") if status in {"R", "C"} else None
        if not header.startswith(b":") or not first:
            return
        change = _CHANGES.get(status, "modified")
        if second is None:
            yield _Entry(change, None, _text(first))
        else:
            yield _Entry(change, _text(first), _text(second))


def _sections(patch: bytes) -> Iterator[list[bytes]]:
    """The lines of each file. No content can start one: those begin with ' ', '+', '-' or '\\'."""
    section: list[bytes] | None = None
    for line in patch.split(b"\n"):
        if line.startswith(_FILE_START):
            if section is not None:
                yield section
            section = [line]
        elif section is not None:
            section.append(line)
    if section is not None:
        yield section


def _file(entry: _Entry, section: list[bytes]) -> FileDiff:
    lines = tuple(_numbered(section))
    return FileDiff(
        path=entry.path,
        old_path=entry.old_path,
        change=entry.change,
        lines=lines,
        additions=sum(line.kind == "added" for line in lines),
        deletions=sum(line.kind == "removed" for line in lines),
    )


def _numbered(section: list[bytes]) -> Iterator[DiffLine]:
    old = new = 0
    in_hunk = False
    for line in section:
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            in_hunk = True
            yield DiffLine("hunk", _text(line))
        elif line.startswith(_FILE_START):
            in_hunk = False
        elif not in_hunk:
            if line.startswith(_WORTH_NOTING):
                yield DiffLine("note", _note(line))
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


def _note(line: bytes) -> str:
    return "Binary file, not shown" if line.startswith(b"Binary") else _text(line)


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
