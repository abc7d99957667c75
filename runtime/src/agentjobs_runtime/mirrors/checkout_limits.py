"""Bounds what a commit may check out to, before any of it is written.

A repository of kilobytes can list the same directory many times at every level.
"""

from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentjobs_runtime.files.copying import measure_tree
from agentjobs_runtime.git.trees import measure_entries
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.threads import run_in_thread

MIB = 1024**2
# Checked out, text takes 3 to 20 times what git stores, and very small files up to 45 times.
MAX_RATIO = 50
MAX_KEPT_BYTES = 32 * MIB
_BLOCK_BYTES = 4_096


class CheckoutLimits(msgspec.Struct, frozen=True):
    size_bytes: int = 4_096 * MIB
    files: int = 500_000
    organization_bytes: int = 20_480 * MIB

    @property
    def any_ratio_bytes(self) -> int:
        """The size that a checkout may have even if its repository stores next to nothing."""
        return self.size_bytes // 16


class CheckoutAllowance(NamedTuple):
    """`is_kept`: a template may remain for later jobs."""

    max_bytes: int
    is_kept: bool


DEFAULT_LIMITS = CheckoutLimits()


async def check_checkout_size(
    git_dir: Path, commit: str, limits: CheckoutLimits
) -> CheckoutAllowance:
    """Reads no further than the limits. Raises RepoUnavailable and GitError."""
    files = size_bytes = 0
    async with aclosing(measure_entries(git_dir, commit)) as parts:
        async for count, part_bytes in parts:
            files += count
            size_bytes += part_bytes
            if files > limits.files:
                raise RepoUnavailable(
                    f"the commit has more than {limits.files} files and directories"
                    " (the setting limit_checkout_files)"
                )
            if size_bytes > limits.size_bytes:
                raise RepoUnavailable(
                    f"the commit checks out to more than {limits.size_bytes // MIB} MiB"
                    " (the setting limit_checkout_mib)"
                )
    return await _check_ratio(git_dir, size_bytes + files * _BLOCK_BYTES, limits)


async def _check_ratio(git_dir: Path, disk_bytes: int, limits: CheckoutLimits) -> CheckoutAllowance:
    if disk_bytes > limits.organization_bytes:
        raise RepoUnavailable(
            f"the commit checks out to {disk_bytes // MIB} MiB on disk, and an organization may"
            f" have {limits.organization_bytes // MIB} MiB on a worker; remove large files, or"
            " raise the setting limit_organization_disk_mib"
        )
    if disk_bytes <= min(MAX_KEPT_BYTES, limits.any_ratio_bytes):
        # Files may have another encoding in the tree.
        max_bytes = min(2 * MAX_KEPT_BYTES, limits.any_ratio_bytes)
        return CheckoutAllowance(max_bytes, is_kept=True)
    _, stored_bytes = await run_in_thread(measure_tree, git_dir / "objects")
    proportional_bytes = stored_bytes * MAX_RATIO
    allowed_bytes = max(proportional_bytes, limits.any_ratio_bytes)
    if disk_bytes > allowed_bytes:
        raise RepoUnavailable(
            f"the commit checks out to {disk_bytes // MIB} MiB on disk, more than {MAX_RATIO} times"
            f" what the repository stores and more than {limits.any_ratio_bytes // MIB} MiB; remove"
            " repeated files, or raise the setting limit_checkout_mib"
        )
    is_kept = disk_bytes <= max(proportional_bytes, MAX_KEPT_BYTES)
    return CheckoutAllowance(min(allowed_bytes, limits.size_bytes), is_kept)
