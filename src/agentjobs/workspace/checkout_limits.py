"""Bounds what a commit may check out to, before any of it is written.

A repository of kilobytes can list the same directory many times at every level.
"""

from contextlib import aclosing
from pathlib import Path

import msgspec

from agentjobs.git.trees import count_entries, measure_entries
from agentjobs.workspace.errors import RepoUnavailable

MIB = 1024**2
# Of more entries, only the number is looked at before their sizes.
_FEW_FILES = 10_000


class CheckoutLimits(msgspec.Struct, frozen=True):
    size_bytes: int = 4_096 * MIB
    files: int = 500_000


DEFAULT_LIMITS = CheckoutLimits()


async def check_checkout_size(git_dir: Path, commit: str, limits: CheckoutLimits) -> None:
    """Reads no further than the limits. Raises RepoUnavailable and GitError."""
    files = size_bytes = 0
    is_counted = False
    async with aclosing(measure_entries(git_dir, commit)) as parts:
        async for count, part_bytes in parts:
            files += count
            size_bytes += part_bytes
            if files > min(_FEW_FILES, limits.files) and not is_counted:
                await _check_count(git_dir, commit, limits)
                is_counted = True
            if size_bytes > limits.size_bytes:
                raise RepoUnavailable(
                    f"the commit checks out to more than {limits.size_bytes // MIB} MiB"
                    " (the setting limit_checkout_mib)"
                )


async def _check_count(git_dir: Path, commit: str, limits: CheckoutLimits) -> None:
    files = 0
    async with aclosing(count_entries(git_dir, commit)) as counts:
        async for count in counts:
            files += count
            if files > limits.files:
                raise RepoUnavailable(
                    f"the commit has more than {limits.files} files and directories"
                    " (the setting limit_checkout_files)"
                )
