"""What every tracker offers: a ticket by the ID people write, and a link back to the result.

Knows no job and no table.
"""

from typing import Protocol

import msgspec


class Ticket(msgspec.Struct, frozen=True):
    """`id` is as the tracker writes it. All fields are untrusted text."""

    id: str
    title: str
    text: str
    labels: tuple[str, ...]
    url: str


class ResultLink(msgspec.Struct, frozen=True):
    """The pull request for a ticket. `title` is one line; `job_id` identifies repetitions."""

    job_id: str
    title: str
    url: str


class TicketNotFound(Exception):
    """The configured trackers do not have the ticket; the message says why."""


class TrackerUnavailable(Exception):
    """A tracker that may have the ticket does not respond. `key` identifies its outages."""

    def __init__(self, message: str, key: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.key = key
        self.retry_after_seconds = retry_after_seconds


class Tracker(Protocol):
    """Every method raises PlatformError."""

    async def find(self, ticket_id: str) -> Ticket | None:
        """None if there is none that the account can see, or the ID has another format."""

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None: ...
