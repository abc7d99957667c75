"""Follow-up jobs that people request in comments on the service's pull requests.

A comment counts only if the platform says that its author has write access; others are told why
not. The service marks its own comments, so it never responds to itself.
"""

import hashlib
import logging
import re

from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.authentication import Caller
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platform_sync.refusals import tell_refusal
from agentjobs.platforms.protocol import Comment, Platform, PlatformError
from agentjobs.platforms.text import OWN_MARK
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.safe_text import single_line, strip_control_characters, truncate_bytes

# `config_override` is limited to 16 KiB of JSON.
_MAX_PROMPT_BYTES = 12_000
_MAX_LOCATION_CHARACTERS = 400
_NO_ACCESS = (
    "No follow-up was started: only people with write access to this repository can start one. Ask"
    " somebody who has write access to repeat the request."
)
_UNKNOWN_ACCESS = (
    "No follow-up was started: the service cannot read who has write access to this repository. Its"
    " admins find the missing permission on the repository's page."
)
_log = logging.getLogger(__name__)


class CommentDeferred(Exception):
    """The comment cannot be handled yet and should be handled again soon."""


async def handle_comment(
    context: JobsContext,
    platform: Platform,
    repo: PlatformRepo,
    number: int,
    comment: Comment,
) -> str | None:
    """Start the follow-up that a new comment on a pull request requests, once, and reply.

    Returns what an admin should know. Raises PlatformError and CommentDeferred.
    """
    instruction = parse_instruction(comment.text, context.settings.mention)
    if instruction is None:
        return None
    # Comments of a person whose token the connection uses count as the person's.
    if repo.connection_kind == "app" and comment.author == repo.account:
        return None
    note = None
    try:
        refusal = None if await platform.may_write(repo.address, comment.author) else _NO_ACCESS
    except PlatformError as error:
        if error.fault != "denied":
            raise
        refusal = _UNKNOWN_ACCESS
        note = f"A comment on #{number} started no follow-up: {error}"
    if refusal is not None:
        fields = {"repo_id": repo.id, "comment": comment.url, "reason": note or refusal}
        _log.info("a comment starts no follow-up", extra={"fields": fields})
        await tell_refusal(
            platform, repo.address, number, comment.author, refusal, own_login=repo.account or ""
        )
        return note
    reply = await _start_follow_up(context, repo, number, comment, instruction)
    if reply is not None:
        await platform.comment(repo.address, number, f"{OWN_MARK}\n{reply}")
    return None


def parse_instruction(text: str, mention: str) -> str | None:
    """The text after the mention that starts the comment; None if there is none."""
    if OWN_MARK in text:
        return None
    pattern = rf"\s*@{re.escape(mention)}(?![\w/-]|\.\w)[:,]?(.*)"
    match = re.match(pattern, text, re.DOTALL | re.IGNORECASE)
    if match is None:
        return None
    return truncate_bytes(strip_control_characters(match[1]).strip(), _MAX_PROMPT_BYTES) or None


def prompt_for(instruction: str, location: str) -> str:
    """The follow-up's prompt; for a comment on a line it starts with the location."""
    about = single_line(location)[:_MAX_LOCATION_CHARACTERS]
    if not about:
        return instruction
    return truncate_bytes(f"About {about}:\n{instruction}", _MAX_PROMPT_BYTES)


async def _start_follow_up(
    context: JobsContext, repo: PlatformRepo, number: int, comment: Comment, instruction: str
) -> str | None:
    """The text of the reply; None if the comment was handled before."""
    job_id = await _latest_completed_job(context, repo, number)
    if job_id is None:
        if await _has_unfinished_job(context, repo, number):
            raise CommentDeferred
        return None
    caller = Caller(
        organization_id=repo.organization_id,
        organization=repo.organization,
        plan=repo.plan,
        key_id=f"{repo.platform}:{comment.author}",
        scope="jobs",
        git_write=False,
        name=f"@{comment.author} on {repo.platform}",
    )
    # A service that is killed before it records the comment reads it again.
    claim = IdempotencyClaim(
        f"{comment.kind}:{repo.connection_id}:{repo.id}:{comment.id}",
        # The location is left out: the line may have moved when the comment is read again.
        hashlib.sha256(instruction.encode(errors="replace")).digest(),
    )
    request = FollowUpRequest(prompt_for(instruction, comment.location))
    try:
        created = await follow_up_job(context, caller, job_id, request, idempotency=claim)
    except Problem as problem:
        return f"No follow-up was started: {problem.message}"
    if created.replayed:
        return None
    url = f"{context.settings.effective_public_url}/jobs/{created.receipt.job_id}"
    return f"Started a follow-up on this pull request: [{created.receipt.job_id}]({url})"


async def _has_unfinished_job(context: JobsContext, repo: PlatformRepo, number: int) -> bool:
    row = await context.db.fetch_one(
        "SELECT j.id FROM pulls p JOIN jobs j ON j.repo_id = p.repo_id AND j.branch = p.head_branch"
        " WHERE p.repo_id = :repo_id AND p.number = :number AND j.organization_id = :owner"
        " AND j.status IN ('queued', 'running') LIMIT 1",
        repo_id=repo.id,
        number=number,
        owner=repo.organization_id,
    )
    return row is not None


async def _latest_completed_job(
    context: JobsContext, repo: PlatformRepo, number: int
) -> str | None:
    row = await context.db.fetch_one(
        "SELECT MAX(id) AS id FROM jobs WHERE repo_id = :repo_id AND pr_number = :number"
        " AND status = 'completed'",
        repo_id=repo.id,
        number=number,
    )
    return None if row is None else row["id"]
