"""Whether a pull request of the platform `local` can be merged, remembered by its two commits."""

from pathlib import Path

import msgspec

from agentjobs.local_git.merge_check import find_conflicts
from agentjobs.local_git.repositories import present_path
from agentjobs.pulls.comparison import Tips
from agentjobs.pulls.pulls import Pull
from agentjobs.weighted_cache import WeightedCache

# In characters of the names of files.
_MAX_REMEMBERED = 1024 * 1024
_OVERHEAD = 200


class MergeCheck(msgspec.Struct, frozen=True):
    """`conflicts` are the files changed on both branches; None if that took too long to find."""

    conflicts: tuple[str, ...] | None


_checks: WeightedCache[tuple[str, Tips], MergeCheck] = WeightedCache(_MAX_REMEMBERED)


async def check_merge(root: Path, pull: Pull, tips: Tips) -> MergeCheck:
    key = (pull.repo_id, tips)
    if (known := _checks.get(key)) is not None:
        return known
    git_dir = present_path(root, pull.repo_id)
    check = MergeCheck(await find_conflicts(git_dir, tips.base, tips.head))
    _checks.put(key, check, _OVERHEAD + sum(map(len, check.conflicts or ())))
    return check
