"""Deletes the branches of finished work on their platform, during the sync of their repository.

Over git, whose push compares the branch with the expected commit: the APIs of platforms delete a
branch wherever it is.
"""

import logging
from pathlib import Path

from agentjobs.local_git import repositories
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platforms.protocol import Platform, PlatformError, RemotePull
from agentjobs.pulls.branches import branches_in_use
from agentjobs.pulls.finished_branches import (
    CLOSED_DELAY_MS,
    FinishedBranch,
    due_branches,
    forget_branch,
    record_finished_branch,
    retry_branch,
)
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.mirrors.errors import PushRejected, RepoUnavailable
from agentjobs_runtime.mirrors.publish import branch_head, delete_branch
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)


async def record_ended_pull(tx: Transaction, repo_id: str, remote: RemotePull) -> None:
    """Lets the branch be deleted if it is still where the last job left it."""
    if remote.state == "open":
        return
    job = await tx.fetch_one(
        "SELECT branch, head_commit FROM jobs WHERE repo_id = :repo_id AND pr_number = :number"
        " AND status = 'completed' ORDER BY id DESC LIMIT 1",
        repo_id=repo_id,
        number=remote.number,
    )
    if job is None or job["head_commit"] != remote.head_commit:
        return
    delay_ms = 0 if remote.state == "merged" else CLOSED_DELAY_MS
    await record_finished_branch(tx, repo_id, job["branch"], job["head_commit"], delay_ms)


async def delete_finished_branches(
    db: Database, settings: Settings, repo: PlatformRepo, platform: Platform
) -> None:
    """A failure is logged and retried by a later sync."""
    if not settings.delete_branches or not (due := await due_branches(db, repo.id)):
        return
    git_dir = repositories.path(settings.repositories_path, repo.id)
    in_use = await branches_in_use(db, repo.id)
    for finished in due:
        if finished.branch in in_use:
            # The pull request was reopened, or a job continues it.
            await db.transact(forget_branch, repo.id, finished.branch)
            continue
        try:
            outcome = await _delete(git_dir, repo, platform, finished)
        except (PlatformError, RepoUnavailable, PushRejected) as error:
            outcome = f"not deleted: {error}"
            await db.transact(retry_branch, repo.id, finished)
        else:
            await db.transact(forget_branch, repo.id, finished.branch)
        fields = {"repo_id": repo.id, "branch": finished.branch, "outcome": outcome}
        _log.info("the branch of finished work", extra={"fields": fields})


async def _delete(
    git_dir: Path, repo: PlatformRepo, platform: Platform, finished: FinishedBranch
) -> str:
    async with platform.open_remote(repo.address, "") as remote:
        head = await branch_head(remote, finished.branch)
        if head is None:
            return "already deleted"
        if head != finished.head_commit:
            return "kept, because it has moved"
        pull = await platform.pull_of_branch(repo.address, finished.branch)
        if pull is not None and pull.state == "open":
            return "kept, because its pull request is open"
        await delete_branch(git_dir, finished.branch, remote, expected=head)
        return "deleted"
