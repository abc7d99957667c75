"""Claims the next jobs of organizations that wait, with lease and fence, within their plans."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from agentjobs.clock import now_ms
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.model import Cause, stored_cause
from agentjobs.jobs.queue import claim_queries as queries
from agentjobs.jobs.queue.platform_outages import LOCAL, REFUSED, postpone_others
from agentjobs.jobs.queue.waiting_organizations import (
    Share,
    WaitingOrganizations,
    has_absent,
    other_shares,
    share_slots,
)
from agentjobs.jobs.verification import Verification, stored_verification
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.store.array_literal import array_literal
from agentjobs.store.database import Row, Transaction

# Others are claiming: with each try the chance grows that they have finished. In a large fleet,
# more of them try again at once.
_CONTENDED_PAUSES_SECONDS = (0.005, 0.01, 0.02, 0.04, 0.08)
_MAX_CONTENDED_PAUSE_SECONDS = 0.3

# A job's identifier and the fence of one claim on it.
Claim = tuple[str, int]


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job claimed by one worker. `fence` identifies the claim, `credential` opens its branch."""

    id: str
    organization_id: str
    organization: str
    repo_id: str
    repo: str
    repo_is_connected: bool
    platform: str
    default_branch: str
    repo_head: str
    agent: str
    ticket_id: str | None
    config_override: dict[str, Any]
    fence: int
    attempt: int
    was_started_before: bool
    branch: str
    credential: str
    lifted_paths: tuple[str, ...] = ()
    daily_budget_nanousd: int | None = None
    job_budget_nanousd: int | None = None
    # The result of an earlier attempt that pushed its branch.
    verification: Verification | None = None
    # The job whose branch and pull request a follow-up continues.
    follows: str | None = None
    # Why the service created the job itself.
    cause: Cause | None = None
    # The connection and the identifier on the platform; None and empty for `local`.
    connection_id: str | None = None
    external_id: str = ""
    created_at: int = 0
    # When the finished work of an earlier attempt was kept, which only has to be published.
    kept_at: int | None = None
    # Whether the platform or the tracker did not respond at the last attempt.
    has_outage: bool = False
    # The key of the tracker that did not respond.
    waits_for: str | None = None
    # An API key, a user, or a login such as `github:ada`.
    created_by: str | None = None

    @property
    def base_branch(self) -> str:
        if self.follows is not None:
            return self.branch
        return str(self.config_override.get("base_branch") or self.default_branch)

    @property
    def platform_key(self) -> str:
        """Identifies the platform's outages."""
        return self.connection_id or LOCAL

    @property
    def platform_keys(self) -> tuple[str, str]:
        """Of its platform and of its repository alone."""
        return self.platform_key, self.repo_id

    @property
    def outage_keys(self) -> tuple[str, ...]:
        keys = (self.waits_for, None if self.kept_at is None else self.refusal_key)
        return (*self.platform_keys, *(key for key in keys if key is not None))

    @property
    def refusal_key(self) -> str:
        """Identifies that the platform does not accept finished work of the repository."""
        return f"{REFUSED}{self.repo_id}"

    @property
    def claim(self) -> Claim:
        return self.id, self.fence


class _Claimed(msgspec.Struct, frozen=True):
    jobs: list[ClaimedJob]
    # Nothing else of these organizations waits that the worker could start now.
    is_all: bool


class _Contended(Exception):
    """Other workers hold the locks of all organizations that could start a job."""


class Claimer:
    """Claims jobs for one worker."""

    def __init__(self, context: JobsContext, worker_id: str, tags: Sequence[str] = ()) -> None:
        self._context = context
        self._worker_id = worker_id
        self._tags = tags
        self._queue = WaitingOrganizations(context, worker_id)
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
        limits = {
            agent.id: agent.max_concurrent_jobs
            for agent in map(self._context.catalog.get, agents)
            if agent is not None and agent.max_concurrent_jobs is not None
        }
        unlimited = [agent for agent in agents if agent not in limits]
        changes = self._context.db.changes
        for pause_seconds in _CONTENDED_PAUSES_SECONDS:
            # Outside of the transaction: a look at an empty queue is one read.
            view = await self._queue.look(agents)
            free = count - has_absent(expected, view.waiting)
            waiting = [each for each in view.waiting if each.organization_id not in postponed]
            jobs: list[ClaimedJob] = []
            self.may_find_more = not view.is_whole
            try:
                # Jobs under a limit come one by one, and first: others could take every slot.
                if (limits or view.repos_have_limits) and (
                    shares := share_slots(waiting, min(free, 1))
                ):
                    others = other_shares(waiting, shares)
                    claimed = await self._context.db.transact(
                        self._claim_one, view.statements, agents, shares, others, limits
                    )
                    jobs += claimed.jobs
                    self.may_find_more = True
                if shares := share_slots(waiting, free - len(jobs)):
                    others = other_shares(waiting, shares)
                    claimed = await self._context.db.transact(
                        self._claim, view.statements, unlimited, shares, others
                    )
                    jobs += claimed.jobs
                    self.may_find_more |= bool(others) or not claimed.is_all
            except _Contended:
                self.may_find_more = True
                if not jobs:
                    seconds = changes.poll_seconds(pause_seconds, _MAX_CONTENDED_PAUSE_SECONDS)
                    await asyncio.sleep(random.uniform(0.5, 1.5) * seconds)  # noqa: S311 - no secret
                    continue
            return jobs
        return []

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
        lease_ms = int(self._context.settings.lease_seconds * 1_000)
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
            locked[0]["lease_expires_at"],
            agents,
            list(credentials),
            claimable,
            self._tags,
            one_by_one,
        )
        rows = await (claim.at_once(tx) if tx.engine == "postgresql" else claim.in_steps(tx))
        jobs = [_claimed_job(row, credentials[bytes(row["credential_hash"])]) for row in rows]
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
    """What is claimed, under the locks of the organizations of `shares`."""

    statements: queries.Statements
    worker_id: str
    lease_expires_at: int
    agents: Sequence[str]
    credential_hashes: Sequence[bytes]
    shares: Mapping[str, Share]
    tags: Sequence[str]
    one_by_one: bool

    async def at_once(self, tx: Transaction) -> list[Row]:
        shares = self.shares.values()
        return await tx.fetch_all(
            self.statements.choose_and_claim,
            organizations=array_literal(list(self.shares)),
            limits=array_literal([share.limit for share in shares]),
            counts=array_literal([share.count for share in shares]),
            agents=self.agents,
            tags=self.tags,
            one_by_one=self.one_by_one,
            now=now_ms(),
            hashes=array_literal(self.credential_hashes),
            worker_id=self.worker_id,
            lease_expires_at=self.lease_expires_at,
        )

    async def in_steps(self, tx: Transaction) -> list[Row]:
        """For SQLite, which has no LATERAL, and where a statement costs no round trip."""
        chosen: list[str] = []
        for organization_id, share in self.shares.items():
            rows = await tx.fetch_all(
                self.statements.choose,
                agents=self.agents,
                tags=self.tags,
                one_by_one=self.one_by_one,
                now=now_ms(),
                worker_id=self.worker_id,
                organization_id=organization_id,
                limit=share.limit,
                count=share.count,
            )
            chosen += [row["id"] for row in rows]
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


def _claimed_job(row: Row, credential: str) -> ClaimedJob:
    return ClaimedJob(
        id=row["id"],
        organization_id=row["organization_id"],
        organization=row["organization"],
        repo_id=row["repo_id"],
        repo=row["repo"],
        repo_is_connected=row["disconnected_at"] is None,
        platform=row["platform"],
        default_branch=row["default_branch"],
        repo_head=row["repo_head"],
        agent=row["agent"],
        ticket_id=row["ticket_id"],
        config_override=msgspec.json.decode(row["config_override"]),
        fence=row["fence"],
        attempt=row["attempt"],
        was_started_before=row["started_at"] is not None,
        branch=row["branch"],
        credential=credential,
        created_at=row["created_at"],
        lifted_paths=tuple(msgspec.json.decode(row["lifted_paths"])),
        daily_budget_nanousd=row["daily_budget_nanousd"],
        job_budget_nanousd=row["job_budget_nanousd"],
        verification=stored_verification(row["verification"]),
        follows=row["follows"],
        cause=stored_cause(row["cause"]),
        connection_id=row["connection_id"],
        external_id=row["external_id"] or "",
        kept_at=row["kept_at"],
        has_outage=bool(row["has_outage"]),
        waits_for=row["waits_for"],
        created_by=row["created_by"],
    )


async def may_write_branch(tx: Transaction, repo_id: str, branch: str, credential: str) -> bool:
    """Whether a claimed, uncancelled job may write its branch.

    Checked in the caller's transaction, so that a claim cannot end in between.
    """
    row = await tx.fetch_one(
        "SELECT id FROM jobs WHERE credential_hash = :hash AND repo_id = :repo_id"
        " AND branch = :branch AND lease_owner IS NOT NULL AND cancel_requested_at IS NULL"
        " AND EXISTS (SELECT 1 FROM repos r WHERE r.id = :repo_id AND r.disconnected_at IS NULL)"
        " /*postgresql FOR SHARE */",
        hash=token_hash(credential),
        repo_id=repo_id,
        branch=branch,
    )
    return row is not None
