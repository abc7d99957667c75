"""Removes the branches of finished work from `local` repositories.

A branch stays while it has an open pull request or a job works on it, and if somebody else has
committed to it since.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.branches import (
    BranchRemoval,
    JobBranch,
    list_job_branches,
    remove_branches,
)
from agentjobs.local_git.repositories import path
from agentjobs.pulls.pulls import Pull, close_pull
from agentjobs.store.database import Database, to_struct
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_AT_ONCE = 200
_RECENT_MS = 300 * SECOND_MS
_HAS_CANCELLED = (
    " AND id IN (SELECT repo_id FROM jobs WHERE completed_at > :since AND status = 'cancelled')"
)
_log = logging.getLogger(__name__)


class BranchPull(msgspec.Struct, frozen=True):
    number: int
    state: str
    head_commit: str


class BranchUse(msgspec.Struct, frozen=True):
    """What the store knows about some branches of a repository."""

    pulls: Mapping[str, BranchPull]
    in_use: frozenset[str]
    active_jobs: frozenset[str]


def plan_removal(branch: JobBranch, use: BranchUse) -> BranchRemoval | None:
    """None if the branch must stay."""
    pull = use.pulls.get(branch.name)
    if branch.name in use.in_use:
        return None
    if pull is None:
        # A job pushed it, and ended without a pull request.
        is_finished = bool(branch.job_id) and branch.job_id not in use.active_jobs
        return BranchRemoval(branch) if is_finished else None
    if pull.state == "open" or pull.head_commit != branch.head:
        return None
    return BranchRemoval(branch, None if pull.state == "merged" else pull.number)


async def close_and_remove_branch(
    db: Database, settings: Settings, organization: str, full_name: str, number: int
) -> Pull:
    pull = await close_pull(db, organization, full_name, number)
    await remove_pull_branch(db, settings, pull)
    return pull


async def remove_pull_branch(db: Database, settings: Settings, pull: Pull) -> None:
    """Removes the branch of a merged or closed pull request. The next sweep retries a failure."""
    if not settings.delete_branches:
        return
    git_dir = path(settings.repositories_path, pull.repo_id)
    try:
        branches = await list_job_branches(git_dir, [pull.head_branch])
        await _remove(db, pull.repo_id, git_dir, branches)
    except (GitError, OSError, Problem) as error:
        _log.warning("the branch of %s was not removed: %s", pull.short_name, error)


async def sweep_branches(db: Database, root: Path, *, only_cancelled: bool = False) -> None:
    """Remove the branches of finished work that were left behind.

    `only_cancelled`: in repositories where a job was cancelled just now, perhaps after its push.
    """
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE platform = 'local' AND disconnected_at IS NULL"
        f"{_HAS_CANCELLED if only_cancelled else ''} ORDER BY id",
        since=await db.clock_ms() - _RECENT_MS,
    )
    for row in rows:
        git_dir = path(root, row["id"])
        try:
            branches = await list_job_branches(git_dir)
            for start in range(0, len(branches), _AT_ONCE):
                await _remove(db, row["id"], git_dir, branches[start : start + _AT_ONCE])
        except (GitError, OSError, Problem) as error:
            # One damaged repository must not block the others.
            _log.warning("the branches of %s were not removed: %s", row["id"], error)


async def branches_in_use(db: Database, repo_id: str) -> frozenset[str]:
    """The default branch, those of open pull requests, and those that a job works on."""
    rows = await db.fetch_all(
        "SELECT base_branch AS name FROM pulls WHERE repo_id = :repo_id AND state = 'open'"
        " UNION SELECT head_branch FROM pulls WHERE repo_id = :repo_id AND state = 'open'"
        " UNION SELECT default_branch FROM repos WHERE id = :repo_id"
        " UNION SELECT j.branch FROM job_queue q CROSS JOIN jobs j"
        "  WHERE q.repo_id = :repo_id AND j.id = q.job_id",
        repo_id=repo_id,
    )
    return frozenset(row["name"] for row in rows if row["name"] is not None)


async def _remove(db: Database, repo_id: str, git_dir: Path, branches: Sequence[JobBranch]) -> None:
    if not await _find_removals(db, repo_id, branches):
        return
    async with changing_repository(db, repo_id):
        # Again, since a job may have been created for one of them during the wait.
        removals = await _find_removals(db, repo_id, branches)
        removed = await remove_branches(git_dir, removals)
    fields = {"repo_id": repo_id, "branches": len(removals)}
    if removed:
        _log.info("branches of finished work removed", extra={"fields": fields})
    else:
        _log.warning("branches were not removed, because one has moved", extra={"fields": fields})


async def _find_removals(
    db: Database, repo_id: str, branches: Sequence[JobBranch]
) -> list[BranchRemoval]:
    use = await _load_use(db, repo_id, branches)
    return [removal for branch in branches if (removal := plan_removal(branch, use)) is not None]


async def _load_use(db: Database, repo_id: str, branches: Collection[JobBranch]) -> BranchUse:
    names = [branch.name for branch in branches]
    pulls = await db.fetch_all(
        "SELECT head_branch, number, state, head_commit FROM pulls"
        " WHERE repo_id = :repo_id AND head_branch IN (SELECT value FROM each(:names))",
        repo_id=repo_id,
        names=names,
    )
    active = await db.fetch_all(
        "SELECT id FROM jobs WHERE id IN (SELECT value FROM each(:ids))"
        " AND status IN ('queued', 'running')",
        ids=sorted({branch.job_id for branch in branches}),
    )
    return BranchUse(
        {row["head_branch"]: to_struct(row, BranchPull) for row in pulls},
        await branches_in_use(db, repo_id),
        frozenset(row["id"] for row in active),
    )
