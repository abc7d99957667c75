"""A job's ticket: asked for before the agent starts, and told what became of it at the end."""

from dataclasses import dataclass

import msgspec

from agentjobs.agents.prompt import TicketWords
from agentjobs.clock import now_ms
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.model import TicketFacts
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.outcomes import Completed, Stopped
from agentjobs.jobs.run.tools import JobTools
from agentjobs.problems import Problem
from agentjobs.store.database import Transaction
from agentjobs.tickets.protocol import ResultLink, TicketNotFound
from agentjobs.tickets.resolve import FoundTicket, WantedTicket

_FIND_SECONDS = 120.0
_LINK_SECONDS = 10.0


@dataclass(slots=True)
class JobTicket:
    """`found` is None for a job without a ticket, or where no tracker is configured."""

    job: ClaimedJob
    tools: JobTools
    log: LogWriter
    full_name: str
    found: FoundTicket | None = None

    @property
    def facts(self) -> TicketFacts | None:
        if self.found is None:
            return None
        ticket = self.found.ticket
        return TicketFacts(ticket.title, ticket.url, ticket.labels)

    @property
    def words(self) -> TicketWords | None:
        if self.found is None:
            return None
        ticket = self.found.ticket
        return TicketWords(ticket.title, ticket.text, ticket.labels, ticket.url)

    async def find(self) -> None:
        """Raises Stopped where a tracker is configured and has no such ticket; and ForgeError.

        A follow-up goes on with a pull request: what the ticket says is part of that already.
        """
        if self.job.ticket_id is None or self.job.follows is not None:
            return
        wanted = WantedTicket(
            organization_id=self.job.organization_id,
            ticket_id=self.job.ticket_id,
            full_name=self.full_name,
            connection_id=self.job.connection_id,
        )
        retry_budget = RetryBudget(_FIND_SECONDS, self.log.say)
        try:
            self.found = await self.tools.tickets.find(wanted, retry_budget)
        except TicketNotFound as error:
            raise Stopped("ticket_not_found", str(error)) from None
        if self.found is not None and self.facts is not None:
            self.log.say(f"{self.found.tracker}: {self.found.ticket.url}")
            await self.tools.context.db.transact(_store, self.job, self.facts)

    async def find_again(self) -> None:
        """For work that is done already: whatever is wrong with the ticket now costs nothing."""
        try:
            await self.find()
        except (Stopped, ForgeError) as error:
            self.log.say(f"the ticket was not found again: {error}")

    async def link_back(self, done: Completed, title: str) -> None:
        """The pull request is open, whatever becomes of this."""
        if self.found is None or not self.found.link_back:
            return
        if not await self.tools.context.db.transact(_claim_link, self.job):
            return
        link = ResultLink(self.job.id, f"Pull request #{done.pr_number}: {title}", done.pr_url)
        retry_budget = RetryBudget(_LINK_SECONDS, self.log.say)
        try:
            if await self.tools.tickets.link_back(self.found, link, retry_budget):
                self.log.say(f"linked on {self.found.ticket.url}")
        except (ForgeError, Problem) as error:
            self.log.say(f"the ticket was not told: {error}")


async def _store(tx: Transaction, job: ClaimedJob, facts: TicketFacts) -> None:
    await tx.execute(
        "UPDATE jobs SET ticket = :ticket WHERE id = :id AND fence = :fence",
        id=job.id,
        fence=job.fence,
        ticket=msgspec.json.encode(facts).decode(),
    )
    tx.announce(f"job:{job.id}")


async def _claim_link(tx: Transaction, job: ClaimedJob) -> bool:
    """Before it is made: rather none than two."""
    changed = await tx.execute(
        "UPDATE jobs SET ticket_linked_at = :now"
        " WHERE id = :id AND fence = :fence AND ticket_linked_at IS NULL",
        id=job.id,
        fence=job.fence,
        now=now_ms(),
    )
    return changed > 0
