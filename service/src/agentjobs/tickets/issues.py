"""Issues of a repository's platform as tickets: `#12`, `12` or `owner/name#12`."""

import re

from agentjobs.platforms.protocol import Platform, PlatformError
from agentjobs.platforms.text import OWN_MARK
from agentjobs.tickets.bounds import MAX_TEXT_BYTES, build_ticket
from agentjobs.tickets.markdown_text import visible_text
from agentjobs.tickets.protocol import ResultLink, Ticket

# More than is kept, because HTML comments are removed.
_MAX_READ = 4 * MAX_TEXT_BYTES
_PART = r"(?!\.{1,2}(?:[/#]))[A-Za-z0-9_.-]{1,255}"
_ISSUE = re.compile(rf"(?:(?P<repo>{_PART}(?:/{_PART}){{1,20}})#|#?)(?P<number>[1-9][0-9]{{0,17}})")


def parse_issue(ticket_id: str, own_repo: str) -> tuple[str, int] | None:
    """The repository and the number; None if it does not look like an issue."""
    match = _ISSUE.fullmatch(ticket_id.strip())
    return None if match is None else (match["repo"] or own_repo, int(match["number"]))


class IssueTracker:
    """`repo` is the repository of a bare number."""

    def __init__(self, platform: Platform, repo: str) -> None:
        self._platform = platform
        self._repo = repo

    async def find(self, ticket_id: str) -> Ticket | None:
        issue_address = parse_issue(ticket_id, self._repo)
        if issue_address is None:
            return None
        try:
            issue = await self._platform.issue(*issue_address)
        except PlatformError as error:
            if error.fault == "gone":
                return None
            raise
        name = f"{issue.full_name}#{issue.number}"
        text = visible_text(issue.text[:_MAX_READ])
        return build_ticket(name, issue.title, text, issue.labels, issue.url)

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None:
        issue_address = parse_issue(ticket.id, self._repo)
        if issue_address is None:
            raise PlatformError(f"{ticket.id} is not an issue of {self._repo}.")
        # The title is left out: an agent wrote it, and the platform shows it with the link.
        text = f"{OWN_MARK}\nA pull request was opened for this issue: {link.url}"
        await self._platform.comment_on_issue(*issue_address, text)
