"""Asks the agent of a pull request to address comments: one follow-up for all of them."""

from collections.abc import Sequence

from agentjobs.jobs.operations.follow_up import (
    FollowUpRequest,
    earlier_job,
    follow_up_faults,
    follow_up_job,
)
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.authentication import Caller
from agentjobs.pulls.comments import Comment, record_job
from agentjobs.pulls.pulls import Pull
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem

MAX_COMMENTS = 50
_INTRODUCTION = "Address these review comments on the pull request:"


async def ask_agent(
    context: JobsContext, caller: Caller, pull: Pull, comments: Sequence[Comment]
) -> str:
    """Start the follow-up, and return its identifier."""
    if not comments:
        raise Problem("invalid_comment", "There is no comment left to address. Reload the page.")
    if len(comments) > MAX_COMMENTS:
        raise Problem("invalid_comment", f"At most {MAX_COMMENTS} comments start a follow-up.")
    job_id = await latest_completed_job(context.db, pull)
    if job_id is None:
        raise Problem("pull_not_open", "No job opened this pull request, so none can follow up.")
    prompt = build_prompt(comments)
    earlier = await earlier_job(context.db, caller.organization_id, job_id)
    if follow_up_faults({"prompt": prompt}, earlier, context.catalog):
        raise Problem(
            "invalid_comment",
            "The comments are too long for one follow-up. Send fewer, or shorter ones.",
        )
    created = await follow_up_job(context, caller, job_id, FollowUpRequest(prompt))
    follow_up_id = created.receipt.job_id
    await record_job(context.db, pull, [comment.id for comment in comments], follow_up_id)
    return follow_up_id


async def latest_completed_job(db: Database, pull: Pull) -> str | None:
    row = await db.fetch_one(
        "SELECT MAX(id) AS id FROM jobs"
        " WHERE repo_id = :repo_id AND pr_number = :number AND status = 'completed'",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    return None if row is None else row["id"]


def build_prompt(comments: Sequence[Comment]) -> str:
    return "\n\n".join((_INTRODUCTION, *map(_describe, comments))) + "\n"


def _describe(comment: Comment) -> str:
    place, text = comment.place, f"{comment.author} wrote:\n{comment.body.strip()}"
    if place is None:
        return text
    version = "before the change" if place.side == "left" else "after the change"
    # Longer than any fence in the code.
    fence = "`" * max(3, place.code.count("`") + 1)
    code = f"{fence}diff\n{place.code}\n{fence}"
    return f"## {place.path}, line {place.line} ({version})\n\n{code}\n\n{text}"
