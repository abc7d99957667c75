"""Claims the next jobs of organizations that wait, with lease and fence, within their plans."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set

import msgspec

from agentjobs.jobs.queue import claim_queries as queries
from agentjobs.jobs.queue.claim import claimed_job
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.platform_outages import postpone_others
from agentjobs.jobs.queue.waiting_organizations import (
    Share,
    WaitingOrganizations,
    has_absent,
    other_shares,
    share_slots,
)
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.store.array_literal import array_literal
from agentjobs.store.batch_statement import row_parameters
from agentjobs.store.database import Row, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.claimed_job import ClaimedJob

# Others are claiming: with each try the chance grows that they have finished. In a large fleet,
# more of them try again at once.
_CONTENDED_PAUSES_SECONDS = (0.005, 0.01, 0.02, 0.04, 0.08)
_MAX_CONTENDED_PAUSE_SECONDS = 0.3


class _Claimed(msgspec.Struct, frozen=True):
    jobs: list[ClaimedJob]
    # Nothing else of these organizations waits that the worker could start now.
    is_all: bool


class _Contended(Exception):
    """Other workers hold the locks of all organizations that could start a job."""


class Claimer:
    """Claims jobs for one worker."""

    def __init__(
        self, context: JobsContext, worker_id: str, tags: Sequence[str] = (), location: str = ""
    ) -> None:
        self._context = context
        self._worker_id = worker_id
        self._tags = tags
        self._location = location
        self._queue = WaitingOrganizations(context, worker_id, location)
        self.extra_lease_seconds = 0.0
        """Extends the leases of a worker on a starved machine, as in `WorkerInfo`."""
        self.may_find_more = True
        """Whether another claim at once could find more jobs than the last one."""

    async def claim(
        self,
        agents: Sequence[str],
        count: int,
        expected: Set[str] = frozenset(),
        postponed: Set[str] = frozenset(),
    ) -> list[ClaimedJob]:
        """At most `count` jobs, one fewer if an `expected` organization does not wait yet, and none
        of a `postponed` one.

        Fewer jobs do not mean that nothing else waits.
        """
        changes = self._context.db.changes
        for pause_seconds in _CONTENDED_PAUSES_SECONDS:
            try:
                return await self._claim_once(agents, count, expected, postponed)
            except _Contended:
                self.may_find_more = True
                seconds = changes.poll_seconds(pause_seconds, _MAX_CONTENDED_PAUSE_SECONDS)
                await asyncio.sleep(random.uniform(0.5, 1.5) * seconds)  # noqa: S311 - no secret
        return []

    async def _claim_once(
        self, agents: Sequence[str], count: int, expected: Set[str], postponed: Set[str]
    ) -> list[ClaimedJob]:
        limits = self._limits(agents)
        # Outside of the transaction: checking an empty queue is one read.
        view = await self._queue.read(agents)
        free = count - has_absent(expected, view.waiting)
        waiting = [group for group in view.waiting if group.organization_id not in postponed]
        jobs: list[ClaimedJob] = []
        self.may_find_more = not view.is_whole
        # Jobs under a limit come one by one, and first: others could take every slot.
        if (limits or view.repos_have_limits) and (shares := share_slots(waiting, min(free, 1))):
            others = other_shares(waiting, shares)
            claimed = await self._context.db.transact(
                self._claim_one, view.statements, agents, shares, others, limits
            )
            jobs += claimed.jobs
            self.may_find_more = True
        if shares := share_slots(waiting, free - len(jobs)):
            unlimited = [agent for agent in agents if agent not in limits]
            others = other_shares(waiting, shares)
            try:
                claimed = await self._context.db.transact(
                    self._claim, view.statements, unlimited, shares, others
                )
            except _Contended:
                if not jobs:
                    raise
                self.may_find_more = True
                return jobs
            jobs += claimed.jobs
            self.may_find_more |= bool(others) or not claimed.is_all
        return jobs

    def _limits(self, agents: Sequence[str]) -> dict[str, int]:
        """Limits of the agents that have one."""
        return {
            agent.id: agent.max_concurrent_jobs
            for agent in map(self._context.catalog.get, agents)
            if agent is not None and agent.max_concurrent_jobs is not None
        }

    async def _claim_one(
        self,
        tx: Transaction,
        statements: queries.Statements,
        agents: Sequence[str],
        shares: Mapping[str, Share],
        others: Mapping[str, Share],
        limits: Mapping[str, int],
    ) -> _Claimed:
        free = [
            agent
            for agent in agents
            if agent not in limits or await _is_below_limit(tx, agent, limits[agent])
        ]
        return await self._claim(tx, statements, free, shares, others, one_by_one=True)

    async def _claim(
        self,
        tx: Transaction,
        statements: queries.Statements,
        agents: Sequence[str],
        shares: Mapping[str, Share],
        others: Mapping[str, Share],
        *,
        one_by_one: bool = False,
    ) -> _Claimed:
        """Other workers may be claiming for the organizations of `shares`: then for `others`."""
        candidates = shares if tx.engine == "sqlite" else {**shares, **others}
        lease_seconds = self._context.settings.lease_seconds + self.extra_lease_seconds
        lease_ms = int(lease_seconds * 1_000)
        locked = await tx.fetch_all(
            queries.LOCK,
            organizations=list(candidates),
            count=len(shares),
            now=now_ms(),
            lease_ms=lease_ms,
        )
        if not locked:
            raise _Contended
        claimable = {row["id"]: candidates[row["id"]] for row in locked}
        count = sum(share.count for share in claimable.values())
        tokens = [new_token(JOB_CREDENTIAL_PREFIX) for _ in range(count)]
        credentials = {token_hash(token): token for token in tokens}
        claim = _Claim(
            statements,
            self._worker_id,
            self._location,
            locked[0]["lease_expires_at"],
            agents,
            list(credentials),
            claimable,
            self._tags,
            one_by_one,
        )
        rows = await (claim.at_once(tx) if tx.engine == "postgresql" else claim.in_steps(tx))
        claimed_at = claim.lease_expires_at - lease_ms
        jobs = [
            claimed_job(row, credentials[bytes(row["credential_hash"])], claimed_at) for row in rows
        ]
        if keys := {key for job in jobs if job.has_outage for key in job.outage_keys}:
            await postpone_others(tx, keys)
        claimed_of = Counter(job.organization_id for job in jobs)
        is_all = len(locked) == len(shares) and all(
            claimed_of[organization_id] < share.count for organization_id, share in shares.items()
        )
        return _Claimed(sorted(jobs, key=lambda job: job.id), is_all)


async def _is_below_limit(tx: Transaction, agent: str, limit: int) -> bool:
    """Holds until the transaction ends."""
    lock = await tx.fetch_one(queries.LOCK_AGENT, name=f"agent {agent}")
    if lock is None or not lock["locked"]:
        return False
    row = await tx.fetch_one(queries.ACTIVE_OF_AGENT, agent=agent)
    return row is not None and row["active"] < limit


class _Claim(msgspec.Struct, frozen=True):
    """A claim of jobs under the locks of the organizations of `shares`."""

    statements: queries.Statements
    worker_id: str
    location: str
    lease_expires_at: int
    agents: Sequence[str]
    credential_hashes: Sequence[bytes]
    shares: Mapping[str, Share]
    tags: Sequence[str]
    one_by_one: bool

    async def at_once(self, tx: Transaction) -> list[Row]:
        shares = [
            {"id": organization_id, "max_jobs": share.limit, "wanted": share.count}
            for organization_id, share in self.shares.items()
        ]
        return await tx.fetch_all(
            self.statements.choose_and_claim,
            **row_parameters(queries.SHARE, shares),
            agents=self.agents,
            tags=self.tags,
            one_by_one=self.one_by_one,
            now=now_ms(),
            hashes=array_literal(self.credential_hashes),
            worker_id=self.worker_id,
            location=self.location,
            lease_expires_at=self.lease_expires_at,
        )

    async def in_steps(self, tx: Transaction) -> list[Row]:
        """Claims on SQLite, which has no LATERAL, and where a statement costs no round trip."""
        chosen: list[str] = []
        for organization_id, share in self.shares.items():
            rows = await tx.fetch_all(
                self.statements.choose,
                agents=self.agents,
                tags=self.tags,
                one_by_one=self.one_by_one,
                now=now_ms(),
                worker_id=self.worker_id,
                location=self.location,
                organization_id=organization_id,
                limit=share.limit,
                count=share.count,
            )
            chosen += [row["job_id"] for row in rows]
        await tx.execute_many(
            queries.CLAIM,
            [
                {
                    "job_id": job_id,
                    "worker_id": self.worker_id,
                    "lease_expires_at": self.lease_expires_at,
                    "credential_hash": credential_hash,
                }
                for job_id, credential_hash in zip(chosen, self.credential_hashes, strict=False)
            ],
        )
        return await tx.fetch_all(self.statements.read, ids=chosen)
