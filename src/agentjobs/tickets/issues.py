"""Issues of the platform a repository lives on, as tickets: `#12`, `12` or `owner/name#12`."""

import re

from agentjobs.forges.protocol import ForgeError, Platform
from agentjobs.forges.text import OWN_MARK
from agentjobs.tickets.bounds import MOST_TEXT_BYTES, bounded_ticket
from agentjobs.tickets.markdown_text import seen_text
from agentjobs.tickets.protocol import ResultLink, Ticket

# Of what is longer, some may be a comment.
_MOST_READ = 4 * MOST_TEXT_BYTES
_PART = r"(?!\.{1,2}(?:[/#]))[A-Za-z0-9_.-]{1,255}"
_ISSUE = re.compile(rf"(?:(?P<repo>{_PART}(?:/{_PART}){{1,20}})#|#?)(?P<number>[1-9][0-9]{{0,17}})")


def issue_of(ticket_id: str, own_repo: str) -> tuple[str, int] | None:
    """The repository and the number that are meant; None: it is written otherwise."""
    found = _ISSUE.fullmatch(ticket_id.strip())
    return None if found is None else (found["repo"] or own_repo, int(found["number"]))


class IssueTracker:
    """`repo` is where a bare number points."""

    def __init__(self, platform: Platform, repo: str) -> None:
        self._platform = platform
        self._repo = repo

    async def find(self, ticket_id: str) -> Ticket | None:
        wanted = issue_of(ticket_id, self._repo)
        if wanted is None:
            return None
        try:
            issue = await self._platform.issue(*wanted)
        except ForgeError as error:
            if error.fault == "gone":
                return None
            raise
        name = f"{issue.full_name}#{issue.number}"
        text = seen_text(issue.text[:_MOST_READ])
        return bounded_ticket(name, issue.title, text, issue.labels, issue.url)

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None:
        wanted = issue_of(ticket.id, self._repo)
        if wanted is None:
            raise ForgeError(f"{ticket.id} is no issue of {self._repo}.")
        # Its title is left out: the platform shows it with the link, and an agent wrote it.
        text = f"{OWN_MARK}\nA pull request was opened for this: {link.url}"
        await self._platform.comment_on_issue(*wanted, text)
