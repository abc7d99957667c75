"""Which organizations have waiting jobs, and how a worker's free slots are shared among them."""

import heapq
from collections.abc import Mapping, Sequence, Set

import msgspec

from agentjobs.jobs.queue import claim_queries as queries
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.store.database import Row
from agentjobs_runtime.clock import now_ms

# How many organizations one claim compares.
WINDOW = 32


class Waiting(msgspec.Struct, frozen=True):
    """An organization with waiting jobs."""

    organization_id: str
    limit: int
    active: int
    last_claimed_at: int


class QueueView(msgspec.Struct, frozen=True):
    """The waiting organizations of a claim, and the statements that fit."""

    statements: queries.Statements
    waiting: Sequence[Waiting]
    # Whether repositories of any organization have limits.
    repos_have_limits: bool
    # Whether `waiting` are all of them.
    is_whole: bool


class WaitingOrganizations:
    """Organizations with jobs for one worker. Remembers where the next claim starts."""

    def __init__(self, context: JobsContext, worker_id: str, location: str) -> None:
        self._context = context
        self._worker_id = worker_id
        self._location = location
        self._after = ""

    async def read(self, agents: Sequence[str]) -> QueueView:
        rows = await self._organizations(queries.WITHOUT_OUTAGES, agents)
        statements = queries.WITHOUT_OUTAGES
        if any(row["has_outages"] for row in rows):
            statements = queries.DURING_OUTAGES
            rows = await self._organizations(statements, agents)
        return QueueView(
            statements,
            self._waiting(rows),
            repos_have_limits=any(row["repos_have_limits"] for row in rows),
            is_whole=len(rows) < WINDOW,
        )

    async def _organizations(
        self, statements: queries.Statements, agents: Sequence[str]
    ) -> list[Row]:
        where = {
            "agents": agents,
            "window": WINDOW,
            "worker_id": self._worker_id,
            "location": self._location,
            "now": now_ms(),
        }
        db = self._context.db
        rows = await db.fetch_all(statements.organizations, after=self._after, **where)
        if len(rows) < WINDOW and self._after:
            # The last ones are compared with the first ones.
            first = await db.fetch_all(statements.organizations, after="", **where)
            rows = list({row["id"]: row for row in (*rows, *first)}.values())
        return rows

    def _waiting(self, rows: Sequence[Row]) -> list[Waiting]:
        # There may be more for one agent than for another: up to this one, none is missing.
        self._after = sorted(row["id"] for row in rows)[WINDOW - 1] if len(rows) >= WINDOW else ""
        return [
            Waiting(
                row["id"],
                self._context.plans.concurrent_jobs(row["plan"]),
                row["active"],
                row["last_claimed_at"] or 0,
            )
            for row in rows
            # Paused organizations count for the window, or they would hide those after them.
            if row["paused_at"] is None
        ]


def has_absent(expected: Set[str], waiting: Sequence[Waiting]) -> bool:
    return not expected <= {group.organization_id for group in waiting}


class Share(msgspec.Struct):
    """How many jobs one organization may start now, within its limit."""

    limit: int
    count: int = 0


def share_slots(waiting: Sequence[Waiting], count: int) -> dict[str, Share]:
    """Divide free slots: each goes to the organization with the fewest active jobs, then to the
    one that waits longest."""
    shares: dict[str, Share] = {}
    heap = [
        (group.active, group.last_claimed_at, group.organization_id, group.limit)
        for group in waiting
        if group.active < group.limit
    ]
    heapq.heapify(heap)
    while heap and count:
        active, last_claimed_at, organization_id, limit = heapq.heappop(heap)
        shares.setdefault(organization_id, Share(limit)).count += 1
        count -= 1
        if active + 1 < limit:
            heapq.heappush(heap, (active + 1, last_claimed_at, organization_id, limit))
    return shares


def other_shares(waiting: Sequence[Waiting], shares: Mapping[str, Share]) -> dict[str, Share]:
    """One job for each of the others that could start one, in the same order."""
    others = [
        group
        for group in waiting
        if group.active < group.limit and group.organization_id not in shares
    ]
    others.sort(key=lambda group: (group.active, group.last_claimed_at, group.organization_id))
    return {group.organization_id: Share(group.limit, 1) for group in others}
