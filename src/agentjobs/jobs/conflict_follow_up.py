"""Asks the agent of a pull request to resolve its conflicts with the base branch.

An agent sees only the branch that it changes, so the base branch is merged into it before.
"""

from agentjobs.jobs.comment_follow_up import latest_completed_job
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.follow_up import FollowUpRequest, active_job_on, follow_up_job, is_active
from agentjobs.organizations.authentication import Caller
from agentjobs.problems import Problem
from agentjobs.pulls.comments import add_comment, record_job
from agentjobs.pulls.conflicts import mark_conflicts, remove_marks
from agentjobs.pulls.pulls import Pull

_MAX_NAMED = 100


async def resolve_conflicts(context: JobsContext, caller: Caller, pull: Pull) -> str:
    """Start the follow-up, and return its identifier."""
    job_id = await latest_completed_job(context.db, pull)
    if job_id is None:
        raise Problem("pull_not_open", "No job opened this pull request, so none can follow up.")
    active = await active_job_on(context.db, caller.organization_id, pull.repo_id, pull.head_branch)
    if active is not None:
        raise is_active(active)
    merge = await mark_conflicts(context.db, context.settings, pull)
    try:
        prompt = _prompt(pull, merge.files)
        created = await follow_up_job(context, caller, job_id, FollowUpRequest(prompt))
    except Exception:
        await remove_marks(context.db, context.settings, pull, merge)
        raise
    follow_up_id = created.receipt.job_id
    comment = await add_comment(
        context.db,
        pull.organization,
        pull.repo,
        pull.number,
        f"Merged `{pull.base_branch}` into this branch with {_count(merge.files)}, and asked the"
        " agent to resolve them. The pull request is a draft until they are.",
    )
    await record_job(context.db, pull, [comment.id], follow_up_id)
    return follow_up_id


def _prompt(pull: Pull, files: tuple[str, ...]) -> str:
    named = "\n".join(f"- {file}" for file in files[:_MAX_NAMED])
    more = f"\n- and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
    return (
        f"The branch {pull.base_branch} was merged into this pull request, and git left conflicts"
        f" in these files:\n\n{named}{more}\n\nResolve them: keep what the pull request intends and"
        " what the other branch changed, and remove all marks (<<<<<<<, =======, >>>>>>>). A file"
        " without marks was deleted or replaced on one side; decide which version is right.\n"
    )


def _count(files: tuple[str, ...]) -> str:
    return "conflicts in 1 file" if len(files) == 1 else f"conflicts in {len(files)} files"
