"""The title of a job: what was asked for, in one line. Pure."""

import re

from agentjobs.jobs.model import TicketDetails
from agentjobs_runtime.protocol.cause import Cause

_MAX_LENGTH = 200
_HEADING_MARK = re.compile("#{1,6} +")


def choose_title(
    title: object, prompt: object, ticket: TicketDetails | None, cause: Cause | None
) -> str | None:
    """The requested title, or that of the ticket, or the first line of the prompt, or the upgrade
    that caused the job. `title` and `prompt` are those of the request, as an earlier version may
    have stored them."""
    for text in (title, ticket.title if ticket else None, prompt):
        if isinstance(text, str) and (line := _first_line(text)):
            return line
    return None if cause is None else f"Upgrade {cause.summary}"[:_MAX_LENGTH]


def agent_on_repo(agent: str, repo: str) -> str:
    """Shown below the title of a job, or in its place."""
    return f"{agent} on {repo}"


def _first_line(text: str) -> str:
    """A prompt may be Markdown that begins with a heading."""
    line = text.strip().partition("\n")[0]
    return _HEADING_MARK.sub("", line, count=1).strip()[:_MAX_LENGTH] if line else ""
