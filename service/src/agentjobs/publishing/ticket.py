"""A job's ticket: read before the agent starts, and linked to the pull request at the end."""

from agentjobs.jobs.model import TicketDetails
from agentjobs.jobs.queue.platform_outages import end_outages, held_keys
from agentjobs.jobs.results.run_records import claim_ticket_link, record_ticket
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.tickets.protocol import ResultLink, TicketNotFound, TrackerUnavailable
from agentjobs.tickets.resolve import FoundTicket, TicketQuery
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import Completed

# For longer outages a job waits in the queue.
_FIND_SECONDS = 15.0
_LINK_SECONDS = 10.0


async def find_ticket(run: ServiceRun, repo: HostedRepo) -> FoundTicket | None:
    """None for a job without a ticket, and where no tracker is configured.

    Raises TicketNotFound when a tracker is configured and has no such ticket, and
    TrackerUnavailable while a tracker does not respond.
    """
    job = run.job
    # A follow-up continues a pull request that was made from the ticket.
    if job.ticket_id is None or job.follows is not None:
        return None
    query = TicketQuery(
        organization_id=job.organization_id,
        ticket_id=job.ticket_id,
        full_name=repo.address.full_name,
        connection_id=job.connection_id,
    )
    # The job that waited for a tracker asks it for all others.
    held = await held_keys(run.db) - {job.waits_for}
    retry_budget = RetryBudget(_FIND_SECONDS, run.log.note)
    try:
        ticket = await run.tools.tickets.find(query, retry_budget, held)
    except TicketNotFound:
        await _end_outage(run, job.waits_for)
        raise
    if ticket is not None:
        run.log.note(f"{ticket.tracker}: {ticket.ticket.url}")
        await run.db.transact(record_ticket, job, ticket_details(ticket))
        await _end_outage(run, ticket.outage_key)
    return ticket


async def find_ticket_again(run: ServiceRun, repo: HostedRepo) -> FoundTicket | None:
    """Reads the ticket for finished work, which a missing ticket must not fail."""
    try:
        return await find_ticket(run, repo)
    except (TicketNotFound, TrackerUnavailable) as error:
        await run.warn(f"The ticket could not be read again: {error}")
        return None


async def link_ticket(
    run: ServiceRun, ticket: FoundTicket | None, pull: Completed, title: str
) -> None:
    """Link the pull request on its ticket. A failure is logged: the pull request is open."""
    if (
        ticket is None
        or not ticket.link_back
        or not await run.db.transact(claim_ticket_link, run.job)
    ):
        return
    link = ResultLink(run.job.id, f"Pull request #{pull.pr_number}: {title}", pull.pr_url)
    retry_budget = RetryBudget(_LINK_SECONDS, run.log.note)
    try:
        if await run.tools.tickets.link_back(ticket, link, retry_budget):
            run.log.note(f"linked on {ticket.ticket.url}")
    except (PlatformError, Problem) as error:
        await run.warn(f"The pull request could not be linked on its ticket: {error}")


def ticket_details(match: FoundTicket | None) -> TicketDetails | None:
    if match is None:
        return None
    ticket = match.ticket
    return TicketDetails(ticket.title, ticket.url, ticket.labels)


async def _end_outage(run: ServiceRun, key: str | None) -> None:
    """The tracker responded."""
    if key is not None and key == run.job.waits_for:
        await end_outages(run.db, key)
