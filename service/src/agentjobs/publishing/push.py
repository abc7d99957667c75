"""Pushes a job's commit to its branch, once, even when the result of a push was lost."""

from pathlib import Path

from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork, find_own_commit
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs_runtime.git.process import git
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.tracing.spans import traced


@traced("push")
async def push_commit(run: ServiceRun, repo: HostedRepo, work: PushedWork) -> PushedWork:
    """The commit of this job that its branch has: possibly one that was pushed before.

    Raises PushRejected when somebody else moved the branch.
    """
    is_follow_up = run.job.follows is not None
    try:
        is_new = await repo.push(work.commit, expected=work.base if is_follow_up else None)
    except PushRejected:
        head = await repo.branch_head()
        if head is None or head == work.base:
            # It was deleted, or the platform refused the commit.
            raise
        if (earlier := await _find_earlier(run, repo, work, head)) is not None:
            return _adopt(run, earlier)
        # What an earlier attempt pushed is replaced.
        is_new = await repo.push(work.commit, expected=head)
    if not is_new:
        return _adopt(run, work)
    run.log.note(f"pushed {work.commit[:12]} to {run.job.branch}")
    return work


def _adopt(run: ServiceRun, work: PushedWork) -> PushedWork:
    run.log.note(f"adopted {run.job.branch}, already pushed at {work.commit[:12]}")
    return work


async def _find_earlier(
    run: ServiceRun, repo: HostedRepo, work: PushedWork, head: str
) -> PushedWork | None:
    """The commit of an earlier push of this job, which stays; None if it is to be replaced.

    Only this job writes a branch that it created; on the branch of an earlier job, trailers tell.
    """
    await repo.fetch(run.job.branch, head)
    own = await find_own_commit(run.mirror, head, run.job)
    if own is not None and await _is_same_change(run.mirror, own, work):
        return own
    is_last = own is not None and own.commit == head
    if run.job.follows is not None and not is_last:
        raise PushRejected(
            f"the branch {run.job.branch!r} moved while the agent worked: it is at {head[:12]}, not"
            f" at {work.base[:12]}; create another follow-up to continue from there"
        )
    # Commits of people on top of it are kept.
    return None if is_last else own


async def _is_same_change(mirror: Path, own: PushedWork, work: PushedWork) -> bool:
    trees = (f"{commit}^{{tree}}" for commit in (own.commit, work.commit))
    found = await git("rev-parse", *trees, git_dir=mirror)
    return own.base == work.base and len(set(found.stdout.split())) == 1
