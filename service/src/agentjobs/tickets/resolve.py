"""Finds the ticket of a job's `ticket_id` in the organization's trackers, and links back to it."""

from collections.abc import Collection, Iterable
from typing import Protocol

import aiohttp
import msgspec

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.http.client import ApiError, RetryBudget
from agentjobs.platforms.protocol import Platform, PlatformError
from agentjobs.store.database import Database
from agentjobs.tickets.bounds import one_line
from agentjobs.tickets.issues import IssueTracker, parse_issue
from agentjobs.tickets.jira import JiraTracker, parse_key
from agentjobs.tickets.protocol import (
    ResultLink,
    Ticket,
    TicketNotFound,
    Tracker,
    TrackerUnavailable,
)
from agentjobs.tickets.rows import ConfiguredTracker
from agentjobs.tickets.trackers import load_trackers, open_tracker, record_check
from agentjobs_runtime.problems import Problem

_FORMATS = {"issues": "#12 or owner/name#12", "jira": "ABC-123"}
_MAX_ID_CHARACTERS = 100


class ConnectedPlatforms(Protocol):
    async def adapter_for(self, connection_id: str, retry_budget: RetryBudget) -> Platform:
        """Raises PlatformError."""


class TicketQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`connection_id` is None for a repository of the platform `local`, which has no issues."""

    organization_id: str
    ticket_id: str
    full_name: str
    connection_id: str | None = None


class FoundTicket(msgspec.Struct, frozen=True, kw_only=True):
    """`link_back`: the pull request should be linked on the ticket."""

    ticket: Ticket
    tracker_id: str
    tracker: str
    link_back: bool
    full_name: str
    connection_id: str | None = None
    # Identifies the outages of the tracker.
    outage_key: str = ""


class Tickets:
    """One per process; credentials are opened for each request."""

    def __init__(
        self,
        db: Database,
        keys: SealingKeys,
        session: aiohttp.ClientSession,
        platforms: ConnectedPlatforms,
    ) -> None:
        self._db = db
        self._keys = keys
        self._session = session
        self._platforms = platforms

    async def find(
        self, query: TicketQuery, retry_budget: RetryBudget, held: Collection[str] = ()
    ) -> FoundTicket | None:
        """None if no tracker is configured for this repository.

        Raises TicketNotFound, or TrackerUnavailable. A tracker whose key is in `held` counts as
        unavailable and is not asked.
        """
        trackers = [
            tracker
            for tracker in await load_trackers(self._db, query.organization_id)
            if tracker.kind != "issues" or query.connection_id is not None
        ]
        if not trackers:
            return None
        reasons = []
        unavailable: TrackerUnavailable | None = None
        for tracker in trackers:
            if not _accepts(tracker, query):
                continue
            key = _outage_key(tracker, query)
            if key in held:
                message = f"{tracker.name} did not respond at the last attempt."
                unavailable = unavailable or TrackerUnavailable(message, key)
                continue
            try:
                ticket = await self._find_in(tracker, query, retry_budget)
            except (PlatformError, Problem) as error:
                if isinstance(error, PlatformError) and error.is_temporary:
                    seconds = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
                    message = f"{tracker.name}: {error}"
                    unavailable = unavailable or TrackerUnavailable(message, key, seconds)
                reasons.append(f"{tracker.name}: {error}")
                continue
            if ticket is not None:
                return _found_ticket(tracker, ticket, query)
            reasons.append(f"{tracker.name} does not have it, or its account cannot see it.")
        if unavailable is not None:
            raise unavailable
        raise TicketNotFound(_not_found_message(query, reasons, trackers))

    async def link_back(
        self, match: FoundTicket, link: ResultLink, retry_budget: RetryBudget
    ) -> bool:
        """False if links are not wanted any more.

        Raises PlatformError, and Problem for a token that cannot be decrypted.

        Repeating it replaces the link on Jira and adds a comment to an issue.
        """
        opened = await open_tracker(self._db, self._keys, match.tracker_id)
        if opened is None or not opened[0].link_back:
            return False
        if opened[0].kind == "issues" and not await self._is_connected(opened[0], match):
            raise PlatformError(f"{match.ticket.id} is not in a connected repository.")
        tracker = await self._tracker(*opened, match.connection_id, match.full_name, retry_budget)
        await tracker.link_back(match.ticket, link)
        return True

    async def _is_connected(self, tracker: ConfiguredTracker, match: FoundTicket) -> bool:
        """A token may have write access to repositories that are not connected."""
        issue = parse_issue(match.ticket.id, match.full_name)
        row = await self._db.fetch_one(
            "SELECT id FROM repos WHERE organization_id = :organization_id"
            " AND connection_id = :connection_id AND full_name = :full_name"
            " AND disconnected_at IS NULL",
            organization_id=tracker.organization_id,
            connection_id=match.connection_id,
            full_name="" if issue is None else issue[0],
        )
        return row is not None

    async def _find_in(
        self, configured: ConfiguredTracker, query: TicketQuery, retry_budget: RetryBudget
    ) -> Ticket | None:
        opened = await open_tracker(self._db, self._keys, configured.id)
        if opened is None:
            return None
        tracker = await self._tracker(*opened, query.connection_id, query.full_name, retry_budget)
        try:
            ticket = await tracker.find(query.ticket_id)
        except PlatformError as error:
            if error.fault in {"unauthorized", "denied"}:
                await self._record(configured, str(error))
            raise
        await self._record(configured, None)
        return ticket

    async def _tracker(
        self,
        configured: ConfiguredTracker,
        token: str,
        connection_id: str | None,
        full_name: str,
        retry_budget: RetryBudget,
    ) -> Tracker:
        if configured.kind == "jira":
            return jira_tracker(configured, token, self._session, retry_budget)
        if connection_id is None:
            raise PlatformError(f"{full_name} is not on a platform with issues.")
        return IssueTracker(
            await self._platforms.adapter_for(connection_id, retry_budget), full_name
        )

    async def _record(self, tracker: ConfiguredTracker, error: str | None) -> None:
        # Errors of issues are shown on their connection, which may differ per repository.
        if tracker.kind == "jira" and (error is None) != (tracker.error is None):
            await record_check(self._db, tracker.id, error)


def jira_tracker(
    tracker: ConfiguredTracker,
    token: str,
    session: aiohttp.ClientSession,
    retry_budget: RetryBudget,
) -> JiraTracker:
    assert tracker.url is not None
    return JiraTracker(tracker.url, tracker.account, token, session, retry_budget)


def _accepts(tracker: ConfiguredTracker, query: TicketQuery) -> bool:
    if tracker.kind == "jira":
        return parse_key(query.ticket_id, tracker.url or "") is not None
    return parse_issue(query.ticket_id, query.full_name) is not None


def _found_ticket(tracker: ConfiguredTracker, ticket: Ticket, query: TicketQuery) -> FoundTicket:
    return FoundTicket(
        ticket=ticket,
        tracker_id=tracker.id,
        tracker=tracker.name,
        link_back=tracker.link_back,
        full_name=query.full_name,
        connection_id=query.connection_id,
        outage_key=_outage_key(tracker, query),
    )


def _outage_key(tracker: ConfiguredTracker, query: TicketQuery) -> str:
    """Issues are on the platform of each repository, so that one tracker has several."""
    if tracker.kind == "issues":
        return f"issues of {query.connection_id}"
    return tracker.id


def _not_found_message(
    query: TicketQuery, reasons: list[str], trackers: Iterable[ConfiguredTracker]
) -> str:
    name = repr(one_line(query.ticket_id, _MAX_ID_CHARACTERS))
    if reasons:
        return f"The ticket {name} was not found. {' '.join(reasons)}"
    formats = "; ".join(f"{tracker.name}: {_FORMATS[tracker.kind]}" for tracker in trackers)
    return f"{name} does not match the format of any configured tracker ({formats})."
