"""Restores a tree that an agent used to the state of its template, and verifies the result.

An agent changes few files of a large tree, so a repair writes a few and a new copy writes all. A
file system may take seconds to create so many files soon after as many were removed.
"""
# Handles thousands of entries in tenths of a second: Path objects would double the time.
# ruff: noqa: PTH101

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.files.copying import copy_entry
from agentjobs_runtime.files.removal import remove

MAX_REPAIRS = 5_000
COMPARE_TIMEOUT_SECONDS = 120


class _TooManyRepairs(Exception):
    """A new copy is cheaper than a repair."""


def repair_tree(tree: Path, template: Path, copied_at_ns: int) -> bool:
    """Blocking. False if a repair is too expensive or fails; the caller then removes the tree.

    The writer must be dead. Change times only say where to start: `diff` compares all bytes,
    because there are ways to change a file without changing its times.
    """
    try:
        _Repair(copied_at_ns).directory(str(template), str(tree))
    except (OSError, RecursionError, _TooManyRepairs):
        return False
    return _is_equal(tree, template)


@dataclass(slots=True)
class _Repair:
    copied_at_ns: int
    repairs: int = 0

    def directory(self, source: str, target: str) -> None:
        """Uses no recursion, because a repository may be arbitrarily deep."""
        pending = [(source, target)]
        while pending:
            source, target = pending.pop()
            pending += self._repair_directory(source, target)

    def _repair_directory(self, source: str, target: str) -> list[tuple[str, str]]:
        expected, status = os.lstat(source), os.lstat(target)
        if not stat.S_ISDIR(status.st_mode):
            raise _TooManyRepairs
        if _mode(status) != _mode(expected):
            os.chmod(target, _mode(expected))
        if status.st_ctime_ns >= self.copied_at_ns and os.listxattr(target):
            # New files in it would inherit its access control list.
            raise _TooManyRepairs
        with os.scandir(source) as scanned:
            entries = {entry.name: entry for entry in scanned}
        self._remove_extra(target, entries)
        return [
            (entry.path, f"{target}/{name}")
            for name, entry in entries.items()
            if self._repair_entry(entry, f"{target}/{name}")
        ]

    def _remove_extra(self, target: str, entries: dict[str, "os.DirEntry[str]"]) -> None:
        with os.scandir(target) as scanned:
            extra = [entry.path for entry in scanned if entry.name not in entries]
        for path in extra:
            self._count()
            remove(Path(path))

    def _repair_entry(self, expected: "os.DirEntry[str]", target: str) -> bool:
        """Whether it is an existing directory that must be repaired in turn."""
        status = _status(target)
        expected_status = expected.stat(follow_symlinks=False)
        if status is not None and stat.S_IFMT(status.st_mode) == stat.S_IFMT(
            expected_status.st_mode
        ):
            if stat.S_ISDIR(status.st_mode):
                return True
            if self._is_untouched(status, expected_status):
                return False
        self._count()
        if status is not None:
            remove(Path(target))
        copy_entry(expected.path, target)
        return False

    def _is_untouched(self, status: os.stat_result, expected: os.stat_result) -> bool:
        return (
            status.st_ctime_ns < self.copied_at_ns
            and status.st_nlink == 1
            and status.st_size == expected.st_size
            and status.st_mtime_ns == expected.st_mtime_ns
            and status.st_mode == expected.st_mode
        )

    def _count(self) -> None:
        self.repairs += 1
        if self.repairs > MAX_REPAIRS:
            raise _TooManyRepairs


def _is_equal(tree: Path, template: Path) -> bool:
    """Whether `diff` finds the same names, types, contents and links."""
    try:
        result = subprocess.run(
            ["diff", "--recursive", "--brief", "--no-dereference", "--", str(template), str(tree)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMPARE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _mode(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
