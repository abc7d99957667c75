"""What people ask for in comments on pull requests that the service opened: follow-up jobs.

The comment is a stranger's until the platform says that its author may write. The service never
answers itself: what it writes bears a mark.
"""

import hashlib
import logging
import re

import msgspec

from agentjobs.forges.protocol import Comment, ForgeError, Platform, RepoAddress
from agentjobs.forges.text import OWN_MARK
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.idempotency import IdempotencyClaim
from agentjobs.organizations.key_ring import Caller
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platform_sync.pulls import CommentDeferred
from agentjobs.problems import Problem
from agentjobs.safe_text import single_line, strip_control_characters, truncate_bytes

# What a job is asked for is bounded as a whole, in JSON.
_MOST_PROMPT_BYTES = 12_000
_MOST_PLACE_CHARACTERS = 400
_log = logging.getLogger(__name__)


class Conversation(msgspec.Struct, frozen=True):
    """The pull request that a comment stands under, and through whom we read it.

    `own_login` is an account that nobody but the service uses, empty if a person shares it.
    """

    address: RepoAddress
    organization_id: str
    plan: str
    connection_id: str
    number: int
    own_login: str = ""


async def handle_comment(
    context: JobsContext, repo: PlatformRepo, number: int, comment: Comment, platform: Platform
) -> None:
    """Whatever is said on a pull request of ours comes here. Raises ForgeError."""
    if instruction_in(comment.text, context.settings.mention) is None:
        return
    row = await context.db.fetch_one(
        "SELECT o.plan, c.kind, c.account FROM forge_connections c"
        " JOIN organizations o ON o.id = c.organization_id WHERE c.id = :id",
        id=repo.connection_id,
    )
    if row is None:
        return
    conversation = Conversation(
        repo.address,
        repo.organization_id,
        row["plan"],
        repo.connection_id,
        number,
        # A person's own token is no reason not to hear the person.
        (row["account"] or "") if row["kind"] == "app" else "",
    )
    await answer_comment(context, platform, conversation, comment)


async def answer_comment(
    context: JobsContext, platform: Platform, conversation: Conversation, comment: Comment
) -> None:
    """Starts what is asked for, once, and says so under it. Raises ForgeError."""
    instruction = instruction_in(comment.text, context.settings.mention)
    if instruction is None or comment.author == conversation.own_login:
        return
    repo, number = conversation.address, conversation.number
    if not await _may_write(platform, repo, comment):
        return
    said = await _start(context, platform.platform, conversation, comment, instruction)
    if said is not None:
        await platform.comment(repo, number, f"{OWN_MARK}\n{said}")


async def _may_write(platform: Platform, repo: RepoAddress, comment: Comment) -> bool:
    fields = {"repo_id": repo.repo_id, "comment": comment.url}
    try:
        if await platform.may_write(repo, comment.author):
            return True
    except ForgeError as error:
        if error.fault != "denied":
            raise
        # Nobody is believed whom the platform does not speak for.
        _log.warning("a comment's author is not known to us: %s", error, extra={"fields": fields})
        return False
    _log.info("a comment asks for work, its author may not write", extra={"fields": fields})
    return False


def instruction_in(text: str, mention: str) -> str | None:
    """What stands behind the mention that the comment begins with; None if there is nothing."""
    if OWN_MARK in text:
        return None
    pattern = rf"\s*@{re.escape(mention)}(?![\w/-]|\.\w)[:,]?(.*)"
    asked = re.match(pattern, text, re.DOTALL | re.IGNORECASE)
    if asked is None:
        return None
    return truncate_bytes(strip_control_characters(asked[1]).strip(), _MOST_PROMPT_BYTES) or None


def prompt_of(instruction: str, place: str) -> str:
    """What the job is asked for: of a comment on a line, with where it stands."""
    about = single_line(place)[:_MOST_PLACE_CHARACTERS]
    return (
        truncate_bytes(f"About {about}:\n{instruction}", _MOST_PROMPT_BYTES)
        if about
        else instruction
    )


async def _start(
    context: JobsContext,
    platform: str,
    conversation: Conversation,
    comment: Comment,
    instruction: str,
) -> str | None:
    """The words of the answer; None when it was given before."""
    job_id = await _latest_job(context, conversation)
    if job_id is None:
        if await _is_being_opened(context, conversation):
            raise CommentDeferred
        return None
    name = f"@{comment.author} on {platform}"
    caller = Caller(
        organization_id=conversation.organization_id,
        organization=conversation.address.organization,
        plan=conversation.plan,
        key_id=f"{platform}:{comment.author}",
        scope="jobs",
        git_write=False,
        name=name,
    )
    # A service that is killed in between reads the comment again.
    claim = IdempotencyClaim(
        f"{comment.kind}:{conversation.connection_id}:{conversation.address.repo_id}:{comment.id}",
        # Without its place: the lines may have moved when it is read again.
        hashlib.sha256(instruction.encode(errors="replace")).digest(),
    )
    request = FollowUpRequest(prompt_of(instruction, comment.place))
    try:
        made = await follow_up_job(context, caller, job_id, request, idempotency=claim)
    except Problem as problem:
        return f"No follow-up was started: {problem.message}"
    if made.replayed:
        return None
    url = f"{context.settings.effective_public_url}/jobs/{made.receipt.job_id}"
    return f"Started: [{made.receipt.job_id}]({url}) goes on with this pull request."


async def _is_being_opened(context: JobsContext, conversation: Conversation) -> bool:
    """Whether the job that made the pull request is not finished yet."""
    row = await context.db.fetch_one(
        "SELECT j.id FROM pulls p JOIN jobs j ON j.repo_id = p.repo_id AND j.branch = p.head_branch"
        " WHERE p.repo_id = :repo_id AND p.number = :number AND j.organization_id = :owner"
        " AND j.status IN ('queued', 'running') LIMIT 1",
        repo_id=conversation.address.repo_id,
        number=conversation.number,
        owner=conversation.organization_id,
    )
    return row is not None


async def _latest_job(context: JobsContext, conversation: Conversation) -> str | None:
    row = await context.db.fetch_one(
        "SELECT MAX(id) AS id FROM jobs WHERE repo_id = :repo_id AND pr_number = :number"
        " AND status = 'completed'",
        repo_id=conversation.address.repo_id,
        number=conversation.number,
    )
    return None if row is None else row["id"]
