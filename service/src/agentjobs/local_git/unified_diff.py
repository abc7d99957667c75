"""Parses and cuts unified diffs as `git diff-tree -p --find-renames` writes them. Runs nothing."""

import re
from collections.abc import Iterator

import msgspec

_FILE_START = b"diff --git "
_HUNK_START = b"\n@@ -"
_BINARY = b"\nBinary files "
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))


class PatchedFile(msgspec.Struct, frozen=True):
    """`patch` is the file's part of the diff; None for a binary file."""

    path: str
    previous_path: str | None
    status: str
    additions: int
    deletions: int
    binary: bool
    patch: str | None


def cut_diff(diff: bytes, max_bytes: int) -> bytes:
    """The first files that fit; the first lines of the only file if it is larger."""
    diff = diff[:max_bytes]
    boundary = diff.rfind(b"\n" + _FILE_START)
    return diff[: (boundary if boundary > 0 else diff.rfind(b"\n")) + 1]


def parse_unified(diff: bytes) -> list[PatchedFile]:
    files: list[PatchedFile] = []
    for file in map(_parse_file, _sections(diff)):
        previous = files[-1] if files else None
        if previous is not None and previous.path == file.path:
            # A file that became a link is a deletion and an addition.
            files[-1] = _join(previous, file)
        else:
            files.append(file)
    return files


def _sections(diff: bytes) -> Iterator[bytes]:
    """Content cannot start a section: its lines start with one of ` +-\\`."""
    for part in (b"\n" + diff).split(b"\n" + _FILE_START)[1:]:
        yield _FILE_START + part + (b"" if part.endswith(b"\n") else b"\n")


def _parse_file(section: bytes) -> PatchedFile:
    hunks = section.find(_HUNK_START)
    header = section if hunks < 0 else section[:hunks]
    body = b"" if hunks < 0 else section[hunks:]
    is_binary = _BINARY in header
    name, previous = _names(header)
    return PatchedFile(
        path=_text(name),
        previous_path=None if previous is None else _text(previous),
        status=_status(header, is_renamed=previous is not None),
        additions=body.count(b"\n+"),
        deletions=body.count(b"\n-"),
        binary=is_binary,
        patch=None if is_binary else _text(section),
    )


def _names(header: bytes) -> tuple[bytes, bytes | None]:
    """The name, and the earlier one of a renamed file."""
    lines = header.split(b"\n")
    fields = dict(line.split(b" ", 2)[1:] for line in lines if line.startswith(b"rename "))
    if b"from" in fields and b"to" in fields:
        return _unquote(fields[b"to"]), _unquote(fields[b"from"])
    # `a/NAME b/NAME`: both halves have the same length.
    names = lines[0].removeprefix(_FILE_START)
    return _unquote(names[: len(names) // 2]).removeprefix(b"a/"), None


def _unquote(name: bytes) -> bytes:
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(lambda match: _character(match[1]), name[1:-1])


def _character(escape: bytes) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape, 8) & 0xFF])
    return bytes([_ESCAPED.get(escape[0], escape[0])])


def _status(header: bytes, *, is_renamed: bool) -> str:
    if is_renamed:
        return "renamed"
    if b"\nnew file mode " in header:
        return "added"
    return "deleted" if b"\ndeleted file mode " in header else "modified"


def _join(deleted: PatchedFile, added: PatchedFile) -> PatchedFile:
    patches = (deleted.patch, added.patch)
    return PatchedFile(
        path=added.path,
        previous_path=None,
        status="modified",
        additions=deleted.additions + added.additions,
        deletions=deleted.deletions + added.deletions,
        binary=deleted.binary or added.binary,
        patch=None if None in patches else "".join(patch or "" for patch in patches),
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
