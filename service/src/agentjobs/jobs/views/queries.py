"""Reads jobs and their events, always within one organization, and waits for changes of a job."""

import time
from collections.abc import Sequence

import msgspec

from agentjobs.jobs.lookup import ensure_job, job_not_found
from agentjobs.jobs.model import EventView, JobView
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.environment_holds import is_environment_building
from agentjobs.jobs.queue.estimate import WaitingJob, estimate_waiting
from agentjobs.jobs.queue.fleet import FleetState, decode_tags
from agentjobs.jobs.queue.platform_outages import unreachable_reason
from agentjobs.jobs.results.reports import load_report
from agentjobs.jobs.states import COMPLETED, FINAL, QUEUED, RUNNING, STATUSES, JobStatus
from agentjobs.jobs.views.job_filter import JobFilter, find_jobs
from agentjobs.jobs.views.rows import (
    SELECT_JOB,
    SELECT_JOBS,
    JobRow,
    build_phases,
    job_row,
    job_view,
)
from agentjobs.store.database import Database
from agentjobs.store.grouping import read_together
from agentjobs_runtime.clock import iso_utc, now_ms

_ONE = f"{SELECT_JOB} WHERE j.id = :job_id AND j.organization_id = :organization_id"
# On PostgreSQL, for requests that wait for the same round trip. Jobs are found by their primary
# keys: with the organizations as a second condition, the planner may read all jobs of each.
_MANY = f"{SELECT_JOB} WHERE j.id IN (SELECT value FROM each(:job_ids))"

_ALL_JOBS = JobFilter()
_POLL_SECONDS = 2.0

# The end of other reasons is unknown.
_ESTIMATED = (None, "plan_limit", "agent_limit", "paused")

# The identifiers of a job and of the organization that asks for it.
_JobKey = tuple[str, str]


async def get_job(context: JobsContext, organization_id: str, job_id: str) -> JobView:
    row = await _read_job(context.db, job_id, organization_id)
    if row is None:
        raise job_not_found(job_id)
    job = job_view(row, await _waiting_reason(context, row))
    job = msgspec.structs.replace(job, phases=build_phases(row))
    if job.queue_position is not None and job.queue_reason in _ESTIMATED:
        return await _with_estimate(context, row, job)
    if row.status == COMPLETED and row.pr_number is None:
        job = await _with_report(context.db, job)
    return job


async def _with_estimate(context: JobsContext, row: JobRow, job: JobView) -> JobView:
    waiting = WaitingJob(
        organization_id=row.organization_id,
        limit=context.plans.concurrent_jobs(row.plan),
        agent=row.agent,
        tags=decode_tags(row.required_tags),
        ahead=(job.queue_position or 1) - 1,
        active=row.organization_active or 0,
        paused_at=row.paused_at,
    )
    fleet = await context.fleet.state()
    estimate = estimate_waiting(fleet, waiting, await context.db.clock_ms())
    return msgspec.structs.replace(job, estimated_start_ms=estimate)


async def _with_report(db: Database, job: JobView) -> JobView:
    report = await load_report(db, job.job_id)
    if report is None:
        return job
    return msgspec.structs.replace(
        job, report_markdown=report.markdown, report_json=report.decode_result()
    )


async def _read_job(db: Database, job_id: str, organization_id: str) -> JobRow | None:
    if db.engine == "postgresql":
        return await read_together(db, _read_jobs, (job_id, organization_id))
    row = await db.fetch_one(_ONE, job_id=job_id, organization_id=organization_id, now=now_ms())
    return None if row is None else job_row(row)


async def _read_jobs(db: Database, keys: Sequence[_JobKey]) -> list[JobRow | None]:
    job_ids = [job_id for job_id, _ in keys]
    rows = map(job_row, await db.fetch_all(_MANY, job_ids=job_ids, now=now_ms()))
    by_key = {(row.id, row.organization_id): row for row in rows}
    return [by_key.get(key) for key in keys]


class JobViews(msgspec.Struct, frozen=True):
    """Newest first. `next_before` is the cursor of the next page, None at the end."""

    jobs: list[JobView]
    next_before: str | None


async def list_jobs(
    context: JobsContext,
    organization_id: str,
    filter: JobFilter = _ALL_JOBS,
    *,
    statuses: Sequence[JobStatus] = (),
    limit: int = 20,
    before: str | None = None,
) -> JobViews:
    """Jobs in one of the statuses, or in any without one.

    `before` is the `next_before` of the previous page. A page may be incomplete: see `find_jobs`.
    """
    filters = [filter]
    if statuses and set(statuses) != set(STATUSES):
        filters = [msgspec.structs.replace(filter, status=status) for status in statuses]
    page = await find_jobs(context.db, organization_id, filters, limit=limit, before=before)
    rows = await context.db.fetch_all(
        f"{SELECT_JOBS} WHERE j.id IN (SELECT value FROM each(:ids)) ORDER BY j.id DESC",
        ids=page.ids,
        now=now_ms(),
    )
    jobs = [job_view(row, await _waiting_reason(context, row)) for row in map(job_row, rows)]
    return JobViews(jobs, page.next_before)


async def list_events(db: Database, organization_id: str, job_id: str) -> list[EventView]:
    await ensure_job(db, organization_id, job_id)
    rows = await db.fetch_all(
        "SELECT id, event, sequence, created_at, body FROM events"
        " WHERE job_id = :job_id ORDER BY sequence",
        job_id=job_id,
    )
    return [
        EventView(
            id=row["id"],
            event=row["event"],
            sequence=row["sequence"],
            timestamp=iso_utc(row["created_at"]),
            payload=msgspec.Raw(bytes(row["body"])),
        )
        for row in rows
    ]


async def get_prompt(db: Database, organization_id: str, job_id: str) -> str | None:
    """The agent's prompt; None before the agent has started."""
    row = await db.fetch_one(
        "SELECT prompt FROM jobs WHERE id = :job_id AND organization_id = :organization_id",
        job_id=job_id,
        organization_id=organization_id,
    )
    if row is None:
        raise job_not_found(job_id)
    prompt: str | None = row["prompt"]
    return prompt


async def _waiting_reason(context: JobsContext, row: JobRow) -> str | None:
    if row.status == RUNNING and row.kept_at is not None:
        return await _publishing_reason(context, row.id, row.kept_at)
    return await _queue_reason(context, row)


async def _queue_reason(context: JobsContext, row: JobRow) -> str | None:
    """Why a waiting job cannot start; None when it only waits for jobs ahead of it."""
    if row.status != QUEUED or row.organization_active is None:
        return None
    fleet = await context.fleet.state()
    if fleet.paused_at is not None or row.paused_at is not None:
        return "paused"
    if (limit := _reached_limit(context, row, fleet)) is not None:
        return limit
    if fleet.has_outages:
        if reason := await unreachable_reason(context.db, row.id):
            return reason
        if await is_environment_building(context.db, row.id):
            return "environment_building"
    return fleet.queue_reason(row.agent, decode_tags(row.required_tags))


async def _publishing_reason(context: JobsContext, job_id: str, kept_at: int) -> str | None:
    """What finished work waits for."""
    fleet = await context.fleet.state()
    if fleet.paused_at is not None and fleet.paused_at > kept_at:
        return "paused"
    return await unreachable_reason(context.db, job_id) if fleet.has_outages else None


def _reached_limit(context: JobsContext, row: JobRow, fleet: FleetState) -> str | None:
    """The first limit on concurrent jobs that keeps a job from starting."""
    agent = context.catalog.get(row.agent)
    if (row.organization_active or 0) >= context.plans.concurrent_jobs(row.plan):
        return "plan_limit"
    if row.max_concurrent_jobs is not None and (row.repo_active or 0) >= row.max_concurrent_jobs:
        return "repo_limit"
    agent_limit = None if agent is None else agent.max_concurrent_jobs
    if agent_limit is not None and fleet.active_by_agent.get(row.agent, 0) >= agent_limit:
        return "agent_limit"
    return None


async def wait_for_change(
    context: JobsContext,
    organization_id: str,
    job_id: str,
    seconds: float,
    *,
    until_final: bool = False,
) -> JobView:
    """The job once its status has changed, or is final, or after `seconds`."""
    deadline = time.monotonic() + seconds
    with context.db.changes.listen(f"job:{job_id}") as signal:
        first = job = await get_job(context, organization_id, job_id)
        while job.status not in FINAL and (until_final or job.status == first.status):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            await signal.wait(min(remaining, _POLL_SECONDS))
            job = await get_job(context, organization_id, job_id)
        return job
