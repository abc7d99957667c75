"""Title, description and commit message of a job's pull request. Text from agents is bounded."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agentjobs.jobs.model import TicketDetails
from agentjobs_runtime.agents.report import Report
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.process import git
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.verification import Verification, describe
from agentjobs_runtime.safe_text import ellipsize

_MAX_TITLE_CHARACTERS = 200
_MAX_BODY_CHARACTERS = 40_000
_DRAFT_HEADING = "**This is a draft**, because the agent could not prove its result:"
_SKIPS_CHECKS = re.compile(
    r"\[(?:skip[ -]?ci|ci[ -]?skip|no[ -]?ci|skip actions|actions skip)\]|\*\*\*NO_CI\*\*\*"
    r"|^skip-checks:.*$",
    re.IGNORECASE | re.MULTILINE,
)

_LAST_TRAILERS = re.compile(r"\n\n(?:Co-authored-by: .*\n)?Job: .*\nAgent: .*\Z")


class PullText(msgspec.Struct, frozen=True):
    title: str
    body: str

    @property
    def is_draft(self) -> bool:
        """Whether the agent requested a draft. Part of the body, which the commit keeps."""
        return self.body.startswith(_DRAFT_HEADING)

    def redact(self, redact: Callable[[str], str]) -> "PullText":
        return PullText(redact(self.title), redact(self.body))


def pull_text(
    job: ClaimedJob, agent_name: str, report: Report | None, ticket: TicketDetails | None = None
) -> PullText:
    """Uses the agent's report, or the request where the agent wrote none."""
    override = job.config_override
    title = str(override.get("title") or "") or (report.title if report else "")
    title = title or (ticket.title if ticket else "")
    prefix = f"{job.ticket_id}: " if job.ticket_id and job.ticket_id not in title else ""
    title = _title_line(prefix + (title or f"{agent_name}: proposed changes"))
    description = report.body.strip() if report else ""
    prompt = str(override.get("prompt") or "").strip()
    parts = [
        _draft_section(report.draft_reasons) if report else "",
        description or f"Changes proposed by the agent {agent_name}.",
        f"Prompt:\n\n{_quote(prompt)}" if prompt else "",
        f"Ticket: {_ticket_reference(job.ticket_id, ticket)}" if job.ticket_id else "",
    ]
    body = "\n\n".join(part for part in parts if part)
    return PullText(_without_skip_markers(title), _without_skip_markers(body))


def _draft_section(reasons: Sequence[str]) -> str:
    return "\n".join(
        [_DRAFT_HEADING, "", *(f"- {reason}" for reason in reasons)] if reasons else ()
    )


def commit_message(job: ClaimedJob, text: PullText, co_author: Identity | None = None) -> str:
    """The last trailers name the job and the agent; a job recognizes its own commit by them."""
    credit = "" if co_author is None else f"Co-authored-by: {co_author}\n"
    return f"{text.title}\n\n{text.body}\n\n{credit}{_trailers(job)}\n"


def has_trailers(job: ClaimedJob, message: str) -> bool:
    return message.rstrip().endswith(f"\n{_trailers(job)}")


async def read_pull_text(git_dir: Path, commit: str) -> PullText:
    """The text of a commit that an earlier attempt made."""
    message = await git("show", "-s", "--format=%B", commit, git_dir=git_dir)
    return parse_commit_message(message.stdout.decode(errors="replace"))


def parse_commit_message(message: str) -> PullText:
    title, _, rest = message.partition("\n")
    trailers = _LAST_TRAILERS.search(rest.rstrip())
    body = rest[: trailers.start()].strip() if trailers else ""
    return PullText(_title_line(_without_skip_markers(title)), _without_skip_markers(body))


def pull_body(
    job: ClaimedJob,
    text: PullText,
    verification: Verification | None,
    *,
    job_url: str,
    cost_usd: float | None,
) -> str:
    checks = "" if verification is None else f"\n\n{_verification_section(verification)}"
    cost = "" if cost_usd is None else f" Its models cost {cost_usd:.2f} USD."
    signature = f"Opened by agentjobs: [job {job.id}]({job_url}), agent {job.agent}.{cost}"
    body = text.body
    if len(body) > _MAX_BODY_CHARACTERS:
        # Cut here: platforms would cut at the end, where the verification and the signature are.
        body = f"{body[:_MAX_BODY_CHARACTERS]}\n\n[truncated]"
    return f"{body}{checks}\n\n---\n{signature}\n"


def _trailers(job: ClaimedJob) -> str:
    return f"Job: {job.id}\nAgent: {job.agent}"


def _ticket_reference(ticket_id: str, ticket: TicketDetails | None) -> str:
    """Omits the ticket's title, which anyone may have written."""
    return ticket_id if ticket is None else f"{ticket_id} ({ticket.url})"


def _without_skip_markers(text: str) -> str:
    """An agent must not be able to switch off CI for its own commit."""
    return _SKIPS_CHECKS.sub("", text)


def _verification_section(verification: Verification) -> str:
    """Quotes the last lines of a failed check in a fence that they cannot close."""
    result = "passed" if verification.passed else "failed"
    summary = f"**Verification** {result}: {describe(verification)}."
    if not verification.output:
        return summary
    longest = max((len(run) for run in re.findall("`+", verification.output)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{summary}\n\n{fence}\n{verification.output}\n{fence}"


def _title_line(text: str) -> str:
    return ellipsize(" ".join(text.split()), _MAX_TITLE_CHARACTERS)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
