"""Scans an untrusted tree before git reads it.

Makes it readable, removes what would block a reader, and reports what `change_checks` must check.
Follows no link. The writer must be dead, so that the result stays true.
"""
# Names are bytes, which Path objects cannot hold.
# ruff: noqa: PTH101, PTH108

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.repo_files.rules import format_paths, is_git_directory_name

MAX_FILE_BYTES = 100 * 1024 * 1024
MAX_RULE_FILE_BYTES = 1024 * 1024
MAX_ENTRIES = 2_000_000
MAX_PATH_BYTES = 3_900

# Older than any file of a template, so that git always compares the content.
TOUCHED_FILE_DATE = 315_532_800

ATTRIBUTES = b".gitattributes"
RULE_FILES = frozenset({ATTRIBUTES, b".gitignore", b".gitmodules"})


@dataclass(slots=True)
class TreeScan:
    """Paths are relative to the tree; `special` ones were removed from it."""

    nested_git: list[bytes] = field(default_factory=list)
    oversized: list[bytes] = field(default_factory=list)
    special: list[bytes] = field(default_factory=list)
    has_attributes: bool = False


def exceeds(tree: Path, max_entries: int, max_path_bytes: int) -> bool:
    """Blocking, briefly: whether the tree has more entries, or longer paths in total."""
    entries = path_bytes = 0
    pending = [os.fsencode(tree)]
    while pending:
        try:
            with os.scandir(pending.pop()) as scan:
                for entry in scan:
                    entries += 1
                    path_bytes += len(entry.path)
                    if entries > max_entries or path_bytes > max_path_bytes:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            # A directory that is not readable yet: the scan makes it so.
            return True
    return False


def scan_tree(tree: Path, copied_at_ns: int) -> TreeScan:
    """Blocking. Raises UnsafeChange for what no .gitignore rule could exclude."""
    root = os.fsencode(tree)
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        raise UnsafeChange("unsafe_change", "the working directory was replaced")
    scan = TreeScan()
    try:
        for number, (relative, path, status) in enumerate(_walk(root)):
            if number == MAX_ENTRIES:
                raise UnsafeChange("unsafe_change", f"more than {MAX_ENTRIES} files")
            _record(scan, relative, path, status, copied_at_ns)
    except PermissionError as error:
        named = os.path.relpath(os.fsencode(error.filename or tree), root)
        raise UnsafeChange("unsafe_change", f"cannot be read: {format_paths([named])}") from None
    return scan


def _walk(root: bytes) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Every entry except the root's `.git`, with its status."""
    pending = [b""]
    _make_accessible(root, os.lstat(root))
    while pending:
        directory = pending.pop()
        prefix = directory + b"/" if directory else b""
        with os.scandir(root + b"/" + directory) as scan:
            for entry in scan:
                relative = prefix + entry.name
                if relative == b".git":
                    continue
                if len(entry.path) > MAX_PATH_BYTES:
                    raise UnsafeChange(
                        "unsafe_change", f"a path is too long: {format_paths([relative])}"
                    )
                status = entry.stat(follow_symlinks=False)
                yield relative, entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    _make_accessible(entry.path, status)
                    pending.append(relative)


def _record(
    scan: TreeScan, relative: bytes, path: bytes, status: os.stat_result, copied_at_ns: int
) -> None:
    if is_git_directory_name(relative.rsplit(b"/", 1)[-1]):
        scan.nested_git.append(relative)
    if stat.S_ISDIR(status.st_mode):
        return
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        # The mark of overlayfs for a deleted file of the environment below.
        os.unlink(path)
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        # Reading a pipe in place of a .gitignore would block git for ever, and git cannot store it.
        scan.special.append(relative)
        os.unlink(path)
        return
    is_touched = status.st_ctime_ns >= copied_at_ns
    if is_touched:
        # Git compares only size and date, and the agent can set the date.
        os.utime(path, (TOUCHED_FILE_DATE,) * 2, follow_symlinks=False)
    if is_touched and status.st_size > MAX_FILE_BYTES:
        scan.oversized.append(relative)
    if stat.S_ISREG(status.st_mode):
        _record_file(scan, relative, path, status)


def _record_file(scan: TreeScan, relative: bytes, path: bytes, status: os.stat_result) -> None:
    name = relative.rsplit(b"/", 1)[-1]
    if name in RULE_FILES and status.st_size > MAX_RULE_FILE_BYTES:
        raise UnsafeChange("unsafe_change", f"a file is too large: {format_paths([relative])}")
    scan.has_attributes |= name == ATTRIBUTES
    if not status.st_mode & stat.S_IRUSR and os.geteuid() != 0:
        os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)


def _make_accessible(path: bytes, status: os.stat_result) -> None:
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU and os.geteuid() != 0:
        os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
