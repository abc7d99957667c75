"""The words of a job's commit and pull request, from the agent's report or from what is known."""

import re

import msgspec

from agentjobs.agents.report import Report
from agentjobs.jobs.model import TicketFacts
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.verification import Verification, in_words

_MOST_TITLE_LENGTH = 200
_MOST_SAID = 40_000
_SKIPS_CHECKS = re.compile(
    r"\[(?:skip[ -]?ci|ci[ -]?skip|no[ -]?ci|skip actions|actions skip)\]|\*\*\*NO_CI\*\*\*"
    r"|^skip-checks:.*$",
    re.IGNORECASE | re.MULTILINE,
)


class PullText(msgspec.Struct, frozen=True):
    title: str
    body: str


def pull_text(
    job: ClaimedJob, agent_name: str, report: Report | None, ticket: TicketFacts | None = None
) -> PullText:
    override = job.config_override
    title = str(override.get("title") or "") or (report.title if report else "")
    title = title or (ticket.title if ticket else "")
    prefix = f"{job.ticket_id}: " if job.ticket_id and job.ticket_id not in title else ""
    title = _one_line(prefix + (title or f"{agent_name}: proposed changes"))
    said = report.body.strip() if report else ""
    asked = str(override.get("prompt") or "").strip()
    parts = [
        said or f"Changes proposed by the agent {agent_name}.",
        f"What was asked:\n\n{_quoted(asked)}" if asked else "",
        f"Ticket: {_named(job.ticket_id, ticket)}" if job.ticket_id else "",
    ]
    body = "\n\n".join(part for part in parts if part)
    return PullText(_with_checks(title), _with_checks(body))


def _named(ticket_id: str, ticket: TicketFacts | None) -> str:
    """Not by its title, which anybody may have written."""
    return ticket_id if ticket is None else f"{ticket_id} ({ticket.url})"


def _with_checks(text: str) -> str:
    """Without the words by which a commit tells a platform not to check it."""
    return _SKIPS_CHECKS.sub("", text)


def commit_message(job: ClaimedJob, text: PullText) -> str:
    """Trailers last, so that git and people can tell which job and agent made the commit."""
    return f"{text.title}\n\n{text.body}{_trailers(job)}"


def is_message_of(job: ClaimedJob, message: str) -> bool:
    return message.rstrip().endswith(_trailers(job).rstrip())


def _trailers(job: ClaimedJob) -> str:
    return f"\n\nJob: {job.id}\nAgent: {job.agent}\n"


def from_commit_message(message: str) -> PullText:
    """The words again, for a job that finds its own commit already pushed."""
    title, _, rest = message.partition("\n")
    body, _, _ = rest.rpartition("\n\nJob: ")
    return PullText(_one_line(title), body.strip())


def pull_body(
    job: ClaimedJob,
    text: PullText,
    verification: Verification | None,
    *,
    job_url: str,
    cost_usd: float | None,
) -> str:
    checked = "" if verification is None else f"\n\n{_checked(verification)}"
    cost = "" if cost_usd is None else f" Its models cost {cost_usd:.2f} USD."
    signature = f"Opened by agentjobs: [job {job.id}]({job_url}), agent {job.agent}.{cost}"
    # Platforms cut what is too long at its end, where the service's own words are.
    said = text.body if len(text.body) <= _MOST_SAID else f"{text.body[:_MOST_SAID]}\n\n[cut here]"
    return f"{said}{checked}\n\n---\n{signature}\n"


def _checked(found: Verification) -> str:
    """A failing one with its last lines, in a fence that they cannot close."""
    verdict = f"**Verification** {'passed' if found.passed else 'failed'}: {in_words(found)}."
    if not found.output:
        return verdict
    longest = max((len(run) for run in re.findall("`+", found.output)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{verdict}\n\n{fence}\n{found.output}\n{fence}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TITLE_LENGTH else line[: _MOST_TITLE_LENGTH - 1] + "…"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
