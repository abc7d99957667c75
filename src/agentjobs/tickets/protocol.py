"""What every tracker offers: a ticket by the identifier people write, and a link back to the work.

Knows no job and no table. Where a tracker is kept, and for whom, is `trackers`' business.
"""

from typing import Protocol

import msgspec


class Ticket(msgspec.Struct, frozen=True):
    """`id` is the tracker's own spelling, whatever was asked for; all of it is others' text."""

    id: str
    title: str
    text: str
    labels: tuple[str, ...]
    url: str


class ResultLink(msgspec.Struct, frozen=True):
    """What came of a ticket. `title` is on one line; `job_id` tells a repetition from a new one."""

    job_id: str
    title: str
    url: str


class TicketNotFound(Exception):
    """A tracker is configured and has no such ticket for us; the message says why."""


class Tracker(Protocol):
    """Every method raises ForgeError."""

    async def find(self, ticket_id: str) -> Ticket | None:
        """None: there is none that we may see, or it is written otherwise."""

    async def link_back(self, ticket: Ticket, link: ResultLink) -> None: ...
