"""Bounds what a commit may check out to, before any of it is written.

A repository of kilobytes can list the same directory many times at every level.
"""

from contextlib import aclosing
from pathlib import Path

import msgspec

from agentjobs.git.trees import TreeEntry, list_tree
from agentjobs.workspace.errors import RepoUnavailable

MIB = 1024**2


class CheckoutLimits(msgspec.Struct, frozen=True):
    size_bytes: int = 4_096 * MIB
    files: int = 500_000


DEFAULT_LIMITS = CheckoutLimits()


class CheckoutSize:
    """Adds up the entries of a commit. Raises RepoUnavailable at the limit."""

    def __init__(self, limits: CheckoutLimits) -> None:
        self._limits = limits
        self._files = 0
        self._size_bytes = 0

    def add(self, entry: TreeEntry) -> None:
        self._files += 1
        self._size_bytes += entry.size
        if self._files > self._limits.files:
            raise RepoUnavailable(
                f"the commit has more than {self._limits.files} files and directories"
                " (the setting limit_checkout_files)"
            )
        if self._size_bytes > self._limits.size_bytes:
            raise RepoUnavailable(
                f"the commit checks out to more than {self._limits.size_bytes // MIB} MiB"
                " (the setting limit_checkout_mib)"
            )


async def check_checkout_size(git_dir: Path, commit: str, limits: CheckoutLimits) -> None:
    """Reads no further than the limits. Raises RepoUnavailable and GitError."""
    size = CheckoutSize(limits)
    async with aclosing(list_tree(git_dir, commit)) as entries:
        async for entry in entries:
            size.add(entry)
