"""Finds what an earlier attempt of the same job left behind, so that its work is not done twice."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agentjobs.organizations.pauses import restored_at
from agentjobs.platforms.protocol import Platform, PullRequest, PullRequestRequest
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.publishing.pull_text import has_trailers
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs_runtime.git.process import git
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed

# People may have pushed further commits on top of the job's, but hardly more than this.
_MAX_COMMITS = 100
_ID_AND_PARENT = 2


@dataclass(frozen=True, slots=True)
class PushedWork:
    """The job's commit, made from `base`. `head` is set when the branch has moved on since."""

    base: str
    commit: str
    head: str | None = None


async def find_pushed_work(run: ServiceRun, repo: HostedRepo, base: str) -> PushedWork | None:
    if not (run.job.was_started_before or await _was_restored(run)):
        return None
    if run.job.follows is None:
        head = await repo.branch_head()
        return None if head is None else PushedWork(base, head)
    # The branch of a follow-up is older than the job, and its base is the head of the branch.
    return await find_own_commit(run.mirror, base, run.job)


async def find_merged_pull(run: ServiceRun, repo: HostedRepo, base: str) -> Completed | None:
    """The pull request of an earlier attempt that was merged and whose branch was deleted."""
    job = run.job
    if not repo.is_remote or job.follows is not None:
        return None
    row = await run.db.fetch_one(
        "SELECT number, url, head_commit FROM pulls"
        " WHERE repo_id = :repo_id AND head_branch = :branch",
        repo_id=job.repo_id,
        branch=job.branch,
    )
    if row is None:
        return await _find_unknown_pull(run, repo, base) if await _was_restored(run) else None
    pull = await repo.adapter.pull_of_branch(repo.address, job.branch)
    if pull is None or (pull.number, pull.state) != (row["number"], "merged"):
        return None
    return Completed(row["url"] or "", pull.number, row["head_commit"], draft=False)


async def _was_restored(run: ServiceRun) -> bool:
    """True after a restore: the job may have run after the backup was made."""
    at = await restored_at(run.db)
    return at is not None and run.job.created_at < at


async def _find_unknown_pull(run: ServiceRun, repo: HostedRepo, base: str) -> Completed | None:
    """One that the job opened after the backup, whatever became of it since."""
    current = await repo.adapter.pull_of_branch(repo.address, run.job.branch)
    if current is None:
        return None
    pull = await cast("Platform", repo.adapter).pull(repo.address, current.number)
    request = PullRequestRequest(
        head_branch=run.job.branch,
        base_branch=run.job.base_branch,
        head_commit=pull.head_commit,
        base_commit=base,
        title=pull.title,
        body="",
    )
    opened = PullRequest(pull.number, pull.url, pull.draft)
    await run.db.transact(record_pull, run.job.repo_id, request, opened)
    run.log.note(f"pull request #{pull.number} was opened after the backup that was restored")
    return Completed(pull.url, pull.number, pull.head_commit, pull.draft)


async def find_own_commit(mirror: Path, head: str, job: ClaimedJob) -> PushedWork | None:
    """The job's latest commit on a branch that others write too, recognized by its trailers."""
    history = await git(
        "log",
        "-z",
        "--first-parent",
        f"--max-count={_MAX_COMMITS}",
        "--format=%H %P%n%B",
        head,
        "--",
        git_dir=mirror,
    )
    for record in history.stdout.decode(errors="replace").split("\0"):
        hashes, _, message = record.partition("\n")
        # A job makes no merges, whose other parents would be published without a check.
        if has_trailers(job, message) and len(ids := hashes.split()) == _ID_AND_PARENT:
            return PushedWork(ids[1], ids[0], head)
    return None
