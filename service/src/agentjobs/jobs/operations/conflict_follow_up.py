"""Asks the agent of a pull request to resolve its conflicts with the base branch.

An agent sees only the branch that it changes, so the base branch is merged into it before.
"""

import contextlib

from agentjobs.jobs.operations.comment_follow_up import latest_completed_job
from agentjobs.jobs.operations.follow_up import (
    FollowUpRequest,
    active_job_on,
    follow_up_job,
    job_still_active,
)
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.authentication import Caller
from agentjobs.pulls.comments import add_comment, record_job
from agentjobs.pulls.conflicts import mark_conflicts, remove_marks
from agentjobs.pulls.pulls import Pull
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem

# Limit for the names of files, which may be long; a prompt has at most 16 KiB.
_MAX_NAMES_BYTES = 8_000


async def resolve_conflicts(context: JobsContext, caller: Caller, pull: Pull) -> str:
    """Start the follow-up, and return its identifier."""
    job_id = await latest_completed_job(context.db, pull)
    if job_id is None:
        raise Problem("pull_not_open", "No job opened this pull request, so none can follow up.")
    active = await active_job_on(context.db, caller.organization_id, pull.repo_id, pull.head_branch)
    if active is not None:
        raise job_still_active(active)
    merge = await mark_conflicts(context.db, context.settings, pull)
    try:
        prompt = build_prompt(pull, merge.files)
        created = await follow_up_job(context, caller, job_id, FollowUpRequest(prompt))
    except Exception:
        await remove_marks(context.db, context.settings, pull, merge)
        raise
    follow_up_id = created.receipt.job_id
    # The job runs, even if there are too many comments for another one.
    with contextlib.suppress(Problem):
        await _comment(context.db, pull, merge.files, follow_up_id)
    return follow_up_id


async def _comment(db: Database, pull: Pull, files: tuple[str, ...], job_id: str) -> None:
    text = (
        f"Merged `{pull.base_branch}` into this branch with {_count(files)}, and asked the agent to"
        " resolve them. The pull request is a draft now; mark it as ready when they are resolved."
    )
    comment = await add_comment(db, pull.organization, pull.repo, pull.number, text)
    await record_job(db, pull, [comment.id], job_id)


def build_prompt(pull: Pull, files: tuple[str, ...]) -> str:
    return (
        f"The branch {pull.base_branch} was merged into this pull request, and git left conflicts"
        f" in these files:\n\n{_list(files)}\n\nResolve them: keep what the pull request intends"
        " and what the other branch changed, and remove all marks (<<<<<<<, =======, >>>>>>>). A"
        " file without marks was deleted or replaced on one side; decide which version is right.\n"
    )


def _list(files: tuple[str, ...]) -> str:
    lines, size = list[str](), 0
    for file in files:
        size += len(file.encode()) + len("- \n")
        if size > _MAX_NAMES_BYTES:
            lines.append(f"- and {len(files) - len(lines)} more")
            break
        lines.append(f"- {file}")
    return "\n".join(lines)


def _count(files: tuple[str, ...]) -> str:
    return "conflicts in 1 file" if len(files) == 1 else f"conflicts in {len(files)} files"
