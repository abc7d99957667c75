"""Whether a pull request of the platform `local` can be merged, remembered by its two commits.

Only an answer is final: what git could not tell is tried again after a pause.
"""

import time
from pathlib import Path

import msgspec

from agentjobs.local_git.merge_check import find_conflicts
from agentjobs.local_git.repositories import present_path
from agentjobs.pulls.comparison import Tips
from agentjobs.pulls.pulls import Pull
from agentjobs_runtime.weighted_cache import WeightedCache

# Limit for the characters of the names of files.
_MAX_REMEMBERED = 1024 * 1024
_OVERHEAD = 200
# A try may compute for seconds, and pages ask again with every change.
_PAUSE_SECONDS = 60.0


class MergeCheck(msgspec.Struct, frozen=True):
    """`conflicts` are the files changed on both branches; None if git could not tell this time."""

    conflicts: tuple[str, ...] | None


# With the time from which it is checked again, None if never.
_checks: WeightedCache[tuple[str, Tips], tuple[MergeCheck, float | None]] = WeightedCache(
    _MAX_REMEMBERED
)


async def check_merge(root: Path, pull: Pull, tips: Tips) -> MergeCheck:
    key = (pull.repo_id, tips)
    if (known := _checks.get(key)) is not None:
        check, retry_at = known
        if retry_at is None or time.monotonic() < retry_at:
            return check
        # Pages that are loaded meanwhile do not try as well.
        _remember(key, check)
    check = MergeCheck(await find_conflicts(present_path(root, pull.repo_id), tips.base, tips.head))
    _remember(key, check)
    return check


def _remember(key: tuple[str, Tips], check: MergeCheck) -> None:
    retry_at = time.monotonic() + _PAUSE_SECONDS if check.conflicts is None else None
    _checks.put(key, (check, retry_at), _OVERHEAD + sum(map(len, check.conflicts or ())))
