"""Looks over a tree that a stranger wrote, before git comes near it.

Makes it readable, takes out what would stall a reader, and reports what must be judged. Follows no
link. The writer must be dead: what is found here has to stay true.
"""
# Names are bytes here, which Path objects cannot hold.
# ruff: noqa: PTH101, PTH108

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentjobs.workspace.errors import UnsafeChange
from agentjobs.workspace.rules import is_git_directory_name, shown

MAX_FILE_BYTES = 100 * 1024 * 1024
MAX_RULE_FILE_BYTES = 1024 * 1024
MAX_ENTRIES = 2_000_000
MAX_PATH_BYTES = 3_900

# No file of a template is that old, so a file with this date is always compared by content.
DATE_OF_THE_TOUCHED = 315_532_800

ATTRIBUTES = b".gitattributes"
RULE_FILES = frozenset({ATTRIBUTES, b".gitignore", b".gitmodules"})


@dataclass(slots=True)
class Survey:
    """Paths are relative to the tree; `special` ones were removed from it."""

    nested_git: list[bytes] = field(default_factory=list)
    oversized: list[bytes] = field(default_factory=list)
    special: list[bytes] = field(default_factory=list)
    has_attributes: bool = False


def survey_tree(tree: Path, copied_at_ns: int) -> Survey:
    """Blocking. Raises UnsafeChange for what no rule of the repository could excuse."""
    root = os.fsencode(tree)
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        raise UnsafeChange("unsafe_change", "the working directory was replaced")
    found = Survey()
    try:
        for number, (relative, path, status) in enumerate(_walk(root)):
            if number == MAX_ENTRIES:
                raise UnsafeChange("unsafe_change", f"more than {MAX_ENTRIES} files")
            _note(found, relative, path, status, copied_at_ns)
    except PermissionError as error:
        named = os.path.relpath(os.fsencode(error.filename or tree), root)
        raise UnsafeChange("unsafe_change", f"cannot be read: {shown([named])}") from None
    return found


def _walk(root: bytes) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Every entry but the root's own `.git`, with the status it was found in."""
    pending = [b""]
    _open_up(root, os.lstat(root))
    while pending:
        directory = pending.pop()
        prefix = directory + b"/" if directory else b""
        with os.scandir(root + b"/" + directory) as found:
            for entry in found:
                relative = prefix + entry.name
                if relative == b".git":
                    continue
                if len(entry.path) > MAX_PATH_BYTES:
                    raise UnsafeChange("unsafe_change", f"a path is too long: {shown([relative])}")
                status = entry.stat(follow_symlinks=False)
                yield relative, entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    _open_up(entry.path, status)
                    pending.append(relative)


def _note(
    found: Survey, relative: bytes, path: bytes, status: os.stat_result, copied_at_ns: int
) -> None:
    if is_git_directory_name(relative.rsplit(b"/", 1)[-1]):
        found.nested_git.append(relative)
    if stat.S_ISDIR(status.st_mode):
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        # A pipe in place of a .gitignore would stall git for ever; git has no form for it anyway.
        found.special.append(relative)
        os.unlink(path)
        return
    is_touched = status.st_ctime_ns >= copied_at_ns
    if is_touched:
        # Git compares size and date alone, and the date is whatever the agent says it is.
        os.utime(path, (DATE_OF_THE_TOUCHED,) * 2, follow_symlinks=False)
    if is_touched and status.st_size > MAX_FILE_BYTES:
        found.oversized.append(relative)
    if stat.S_ISREG(status.st_mode):
        _note_file(found, relative, path, status)


def _note_file(found: Survey, relative: bytes, path: bytes, status: os.stat_result) -> None:
    name = relative.rsplit(b"/", 1)[-1]
    if name in RULE_FILES and status.st_size > MAX_RULE_FILE_BYTES:
        raise UnsafeChange("unsafe_change", f"a file is too large: {shown([relative])}")
    found.has_attributes |= name == ATTRIBUTES
    if not status.st_mode & stat.S_IRUSR and os.geteuid() != 0:
        os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)


def _open_up(path: bytes, status: os.stat_result) -> None:
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU and os.geteuid() != 0:
        os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
