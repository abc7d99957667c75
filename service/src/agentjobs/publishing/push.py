"""Pushes a job's commit to its branch, once, even when the result of a push was lost."""

from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import find_own_commit
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.tracing.spans import traced


@traced("push")
async def push_commit(run: ServiceRun, repo: HostedRepo, commit: str, base: str) -> None:
    is_follow_up = run.job.follows is not None
    try:
        is_new = await repo.push(commit, expected=base if is_follow_up else None)
    except PushRejected:
        # An earlier push of this job may have succeeded although its result was lost. Only this
        # job writes a branch that it created; on the branch of an earlier job, trailers tell.
        find = _own_commit(run, repo, commit, base) if is_follow_up else _pushed(run, repo, commit)
        if (own := await find) is None:
            raise
        is_new = own != commit and await repo.push(commit, expected=own)
    if is_new:
        run.log.note(f"pushed {commit[:12]} to {run.job.branch}")
    else:
        run.log.note(f"adopted {run.job.branch}, already pushed at {commit[:12]}")


async def _pushed(run: ServiceRun, repo: HostedRepo, commit: str) -> str | None:
    """The commit of this job on its branch; `commit` if others have pushed on top of one."""
    head = await repo.branch_head()
    if head is None or head == commit:
        return head
    await repo.fetch(run.job.branch, head)
    own = await find_own_commit(run.mirror, head, run.job)
    return head if own is None or own.commit == head else commit


async def _own_commit(run: ServiceRun, repo: HostedRepo, commit: str, base: str) -> str | None:
    """This job's commit at the head of the branch; None when the branch is still at `base`.

    Raises PushRejected when somebody else moved the branch.
    """
    head = await repo.branch_head()
    if head == base:
        return None
    if head is not None:
        await repo.fetch(run.job.branch, head)
        own = await find_own_commit(run.mirror, head, run.job)
        if own is not None and own.commit in (head, commit):
            return own.commit
    state = "was deleted" if head is None else f"is at {head[:12]}, not at {base[:12]}"
    raise PushRejected(
        f"the branch {run.job.branch!r} moved while the agent worked: it {state}; "
        "create another follow-up to continue from there"
    )
