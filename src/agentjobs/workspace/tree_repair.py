"""Makes a tree that an agent had to itself the template's equal again, and proves it.

Most files of a large tree are never touched: mending writes a few, a new copy writes them all, and
a file system may take seconds for so many new files soon after as many were removed.
"""
# Thousands of entries in tenths of a second: Path objects would double the time.
# ruff: noqa: PTH101

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentjobs.workspace.copying import copy_entry
from agentjobs.workspace.removal import remove

MOST_REPAIRS = 5_000
COMPARE_TIMEOUT_SECONDS = 120


class _TooMuch(Exception):
    """A new copy is cheaper."""


def mend_tree(tree: Path, template: Path, copied_at_ns: int) -> bool:
    """Blocking. False when it is not worth it or not possible; the tree is then for removal.

    The writer must be dead. Change times only say where to look: the bytes are compared after all,
    since there are ways to change a file that leave no trace in its times.
    """
    try:
        _Mending(copied_at_ns).directory(str(template), str(tree))
    except (OSError, RecursionError, _TooMuch):
        return False
    return _is_equal(tree, template)


@dataclass(slots=True)
class _Mending:
    copied_at_ns: int
    repairs: int = 0

    def directory(self, source: str, target: str) -> None:
        """Without recursion: a repository may be as deep as it likes."""
        pending = [(source, target)]
        while pending:
            source, target = pending.pop()
            pending += self._one_directory(source, target)

    def _one_directory(self, source: str, target: str) -> list[tuple[str, str]]:
        wanted, status = os.lstat(source), os.lstat(target)
        if not stat.S_ISDIR(status.st_mode):
            raise _TooMuch
        if _mode(status) != _mode(wanted):
            os.chmod(target, _mode(wanted))
        if status.st_ctime_ns >= self.copied_at_ns and os.listxattr(target):
            # Access rules of its own would be handed on to whatever is made in it.
            raise _TooMuch
        with os.scandir(source) as found:
            entries = {entry.name: entry for entry in found}
        self._remove_others(target, entries)
        return [
            (entry.path, f"{target}/{name}")
            for name, entry in entries.items()
            if self._entry(entry, f"{target}/{name}")
        ]

    def _remove_others(self, target: str, entries: dict[str, "os.DirEntry[str]"]) -> None:
        with os.scandir(target) as found:
            others = [entry.path for entry in found if entry.name not in entries]
        for path in others:
            self._count()
            remove(Path(path))

    def _entry(self, wanted: "os.DirEntry[str]", target: str) -> bool:
        """Whether it is a directory that is there and must be looked into."""
        status = _status(target)
        described = wanted.stat(follow_symlinks=False)
        if status is not None and stat.S_IFMT(status.st_mode) == stat.S_IFMT(described.st_mode):
            if stat.S_ISDIR(status.st_mode):
                return True
            if self._looks_untouched(status, described):
                return False
        self._count()
        if status is not None:
            remove(Path(target))
        copy_entry(wanted.path, target)
        return False

    def _looks_untouched(self, status: os.stat_result, wanted: os.stat_result) -> bool:
        return (
            status.st_ctime_ns < self.copied_at_ns
            and status.st_nlink == 1
            and status.st_size == wanted.st_size
            and status.st_mtime_ns == wanted.st_mtime_ns
            and status.st_mode == wanted.st_mode
        )

    def _count(self) -> None:
        self.repairs += 1
        if self.repairs > MOST_REPAIRS:
            raise _TooMuch


def _is_equal(tree: Path, template: Path) -> bool:
    """Whether names, types, contents and links are the same, as a program of its own finds."""
    try:
        compared = subprocess.run(
            ["diff", "--recursive", "--brief", "--no-dereference", "--", str(template), str(tree)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMPARE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return compared.returncode == 0


def _mode(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
