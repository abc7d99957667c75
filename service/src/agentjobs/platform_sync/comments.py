"""Follow-up jobs that people request in comments on the service's pull requests.

A comment counts only if the platform says that its author has write access; others are told why
not. The service marks its own comments, so it never responds to itself.
"""

import hashlib
import logging
import re

import msgspec

from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.organizations.authentication import Caller
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platform_sync.refusals import Refusals
from agentjobs.platforms.protocol import Comment, Platform, PlatformError, RepoAddress
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


class Conversation(msgspec.Struct, frozen=True):
    """The pull request of a comment, and the connection through which it is read.

    `account` is the login with which the service comments; `is_own_account`: only the service uses
    it.
    """

    address: RepoAddress
    organization_id: str
    plan: str
    connection_id: str
    number: int
    account: str
    is_own_account: bool


async def handle_comment(
    context: JobsContext,
    repo: PlatformRepo,
    number: int,
    comment: Comment,
    platform: Platform,
    refusals: Refusals,
) -> str | None:
    """Handle a new comment on a pull request; returns what an admin should know.

    Raises PlatformError and CommentDeferred.
    """
    if parse_instruction(comment.text, context.settings.mention) is None:
        return None
    row = await context.db.fetch_one(
        "SELECT o.plan, c.kind, c.account FROM platform_connections c"
        " JOIN organizations o ON o.id = c.organization_id WHERE c.id = :id",
        id=repo.connection_id,
    )
    if row is None:
        return None
    conversation = Conversation(
        repo.address,
        repo.organization_id,
        row["plan"],
        repo.connection_id,
        number,
        account=row["account"] or "",
        # Comments of a person whose token the connection uses count as the person's.
        is_own_account=row["kind"] == "app",
    )
    return await respond_to_comment(context, platform, conversation, comment, refusals)


async def respond_to_comment(
    context: JobsContext,
    platform: Platform,
    conversation: Conversation,
    comment: Comment,
    refusals: Refusals,
) -> str | None:
    """Start the requested follow-up once and reply; returns what an admin should know.

    Raises PlatformError and CommentDeferred.
    """
    instruction = parse_instruction(comment.text, context.settings.mention)
    if instruction is None:
        return None
    if conversation.is_own_account and comment.author == conversation.account:
        return None
    repo, number = conversation.address, conversation.number
    note = None
    try:
        refusal = None if await platform.may_write(repo, comment.author) else _NO_ACCESS
    except PlatformError as error:
        if error.fault != "denied":
            raise
        refusal = _UNKNOWN_ACCESS
        note = f"A comment on #{number} started no follow-up: {error}"
    if refusal is not None:
        fields = {"repo_id": repo.repo_id, "comment": comment.url, "reason": note or refusal}
        _log.info("a comment starts no follow-up", extra={"fields": fields})
        await refusals.tell(
            platform, repo, number, comment.author, refusal, own_login=conversation.account
        )
        return note
    reply = await _start_follow_up(context, platform.platform, conversation, comment, instruction)
    if reply is not None:
        await platform.comment(repo, number, f"{OWN_MARK}\n{reply}")
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
    context: JobsContext,
    platform: str,
    conversation: Conversation,
    comment: Comment,
    instruction: str,
) -> str | None:
    """The text of the reply; None if the comment was handled before."""
    job_id = await _latest_completed_job(context, conversation)
    if job_id is None:
        if await _has_unfinished_job(context, conversation):
            raise CommentDeferred
        return None
    caller = Caller(
        organization_id=conversation.organization_id,
        organization=conversation.address.organization,
        plan=conversation.plan,
        key_id=f"{platform}:{comment.author}",
        scope="jobs",
        git_write=False,
        name=f"@{comment.author} on {platform}",
    )
    # A service that is killed before it records the comment reads it again.
    claim = IdempotencyClaim(
        f"{comment.kind}:{conversation.connection_id}:{conversation.address.repo_id}:{comment.id}",
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


async def _has_unfinished_job(context: JobsContext, conversation: Conversation) -> bool:
    row = await context.db.fetch_one(
        "SELECT j.id FROM pulls p JOIN jobs j ON j.repo_id = p.repo_id AND j.branch = p.head_branch"
        " WHERE p.repo_id = :repo_id AND p.number = :number AND j.organization_id = :owner"
        " AND j.status IN ('queued', 'running') LIMIT 1",
        repo_id=conversation.address.repo_id,
        number=conversation.number,
        owner=conversation.organization_id,
    )
    return row is not None


async def _latest_completed_job(context: JobsContext, conversation: Conversation) -> str | None:
    row = await context.db.fetch_one(
        "SELECT MAX(id) AS id FROM jobs WHERE repo_id = :repo_id AND pr_number = :number"
        " AND status = 'completed'",
        repo_id=conversation.address.repo_id,
        number=conversation.number,
    )
    return None if row is None else row["id"]
