"""Claims the next job: fair across organizations, within their plans, with lease and fence."""

import asyncio
from typing import Any

import msgspec

from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.model import Cause, stored_cause
from agentjobs.jobs.verification import Verification, stored_verification
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.store.database import Row, Transaction

# The organizations with waiting jobs, by skipping through the index of waiting jobs: the length of
# a queue does not matter.
_WAITING = """
WITH RECURSIVE waiting(organization_id) AS (
  SELECT MIN(organization_id) FROM jobs WHERE status = 'queued' AND lease_owner IS NULL
  UNION ALL
  SELECT (SELECT MIN(j.organization_id) FROM jobs j WHERE j.status = 'queued'
    AND j.lease_owner IS NULL AND j.organization_id > w.organization_id)
  FROM waiting w WHERE w.organization_id IS NOT NULL
)
SELECT w.organization_id, o.plan, o.last_claimed_at,
  (SELECT COUNT(*) FROM jobs a WHERE a.lease_owner IS NOT NULL
    AND a.organization_id = w.organization_id) AS active,
  (SELECT MIN(f.id) FROM jobs f WHERE f.status = 'queued' AND f.lease_owner IS NULL
    AND f.organization_id = w.organization_id) AS first_job
FROM waiting w JOIN organizations o ON o.id = w.organization_id
"""
# One claim at a time per organization: two workers could exceed its limit together. The count is
# part of the next statement, because this one reads a snapshot from before the lock.
_LOCK = (
    "SELECT id FROM organizations WHERE id = :organization_id"
    " /*postgresql FOR NO KEY UPDATE SKIP LOCKED */"
)
_NEXT = (
    "SELECT id FROM jobs WHERE organization_id = :organization_id AND status = 'queued'"
    " AND lease_owner IS NULL AND agent IN (SELECT value FROM each(:agents))"
    " AND (SELECT COUNT(*) FROM jobs a WHERE a.lease_owner IS NOT NULL"
    "  AND a.organization_id = :organization_id) < :concurrent_jobs"
    " ORDER BY id LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */"
)
_CLAIM = (
    "UPDATE jobs SET lease_owner = :worker_id, lease_expires_at = :lease_expires_at,"
    " fence = fence + 1, credential_hash = :credential_hash WHERE id = :job_id"
)
_READ = (
    "SELECT j.*, o.name AS organization, o.daily_budget_nanousd, o.job_budget_nanousd,"
    " r.platform, r.connection_id, r.external_id, r.default_branch, r.disconnected_at,"
    " r.head_commit AS repo_head, r.lifted_paths"
    " FROM jobs j JOIN organizations o ON o.id = j.organization_id JOIN repos r ON r.id = j.repo_id"
    " WHERE j.id = :job_id"
)
_CONTENDED_TRIES = 20
_CONTENDED_PAUSE_SECONDS = 0.005

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

    @property
    def base_branch(self) -> str:
        if self.follows is not None:
            return self.branch
        return str(self.config_override.get("base_branch") or self.default_branch)

    @property
    def claim(self) -> Claim:
        return self.id, self.fence


class _Contended(Exception):
    """Other workers hold the locks of all organizations that could start a job."""


async def claim_job(context: JobsContext, worker_id: str, agents: list[str]) -> ClaimedJob | None:
    for _ in range(_CONTENDED_TRIES):
        try:
            return await context.db.transact(_claim, context, worker_id, agents)
        except _Contended:
            await asyncio.sleep(_CONTENDED_PAUSE_SECONDS)
    return None


async def _claim(
    tx: Transaction, context: JobsContext, worker_id: str, agents: list[str]
) -> ClaimedJob | None:
    contended = False
    waiting = await tx.fetch_all(_WAITING)
    for row in sorted(waiting, key=_priority):
        limit = context.plans.concurrent_jobs(row["plan"])
        if row["active"] >= limit:
            continue
        organization_id = row["organization_id"]
        locked = await tx.fetch_one(_LOCK, organization_id=organization_id)
        if locked is None:
            contended = True
            continue
        job = await tx.fetch_one(
            _NEXT, organization_id=organization_id, agents=agents, concurrent_jobs=limit
        )
        if job is not None:
            return await _take(tx, context, job["id"], organization_id, worker_id)
    if contended:
        raise _Contended
    return None


def _priority(row: Row) -> tuple[int, int, str]:
    """Fewest active jobs first, then the least recently served organization."""
    return row["active"], row["last_claimed_at"] or 0, row["first_job"]


async def _take(
    tx: Transaction, context: JobsContext, job_id: str, organization_id: str, worker_id: str
) -> ClaimedJob | None:
    credential = new_token(JOB_CREDENTIAL_PREFIX)
    now = await tx.clock_ms()
    await tx.execute(
        _CLAIM,
        job_id=job_id,
        worker_id=worker_id,
        lease_expires_at=now + int(context.settings.lease_seconds * 1_000),
        credential_hash=token_hash(credential),
    )
    await tx.execute(
        "UPDATE organizations SET last_claimed_at = :now WHERE id = :organization_id",
        now=now,
        organization_id=organization_id,
    )
    row = await tx.fetch_one(_READ, job_id=job_id)
    return None if row is None else _claimed_job(row, credential)


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
        lifted_paths=tuple(msgspec.json.decode(row["lifted_paths"])),
        daily_budget_nanousd=row["daily_budget_nanousd"],
        job_budget_nanousd=row["job_budget_nanousd"],
        verification=stored_verification(row["verification"]),
        follows=row["follows"],
        cause=stored_cause(row["cause"]),
        connection_id=row["connection_id"],
        external_id=row["external_id"] or "",
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
