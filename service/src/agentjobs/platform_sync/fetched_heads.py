"""Which repositories need no fetch, because nothing was pushed since the last one.

Kept in the memory of this process. Only for platforms that tell the time of the last push.
"""

from dataclasses import dataclass

from agentjobs.platform_sync.claims import DueSync
from agentjobs.platforms.protocol import RemoteRepository
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.weighted_cache import WeightedCache

MAX_REPOSITORIES = 20_000
# A copy may be damaged, and a platform may be wrong.
MAX_SKIPPED = 11
# Another push in the same second has the same time, and clocks differ.
_SETTLED_MS = 120 * SECOND_MS


@dataclass
class _FetchedHead:
    pushed_at: int
    branch: str
    commit: str
    skipped: int = 0


class FetchedHeads:
    def __init__(self) -> None:
        self._heads: WeightedCache[str, _FetchedHead] = WeightedCache(MAX_REPOSITORIES)

    def record(self, repo_id: str, remote: RemoteRepository, commit: str, now: int) -> None:
        """After a fetch."""
        if remote.pushed_at is not None and remote.pushed_at < now - _SETTLED_MS:
            head = _FetchedHead(remote.pushed_at, remote.default_branch, commit)
            self._heads.put(repo_id, head)

    def skip(self, due: DueSync, remote: RemoteRepository) -> bool:
        """Whether a poll needs no fetch; at most a few times in a row."""
        head = self._heads.get(due.repo.id)
        if head is None or not due.is_poll or head.skipped >= MAX_SKIPPED:
            return False
        is_known = (head.pushed_at, head.branch) == (remote.pushed_at, remote.default_branch)
        is_stored = (head.branch, head.commit) == (due.repo.default_branch, due.repo.head_commit)
        if is_known and is_stored:
            head.skipped += 1
        return is_known and is_stored
