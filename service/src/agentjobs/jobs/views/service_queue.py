"""The waiting jobs of the whole service by organization, agent and reason, for operators.

Reads nothing of what the jobs are about.
"""

from collections import Counter

import msgspec

from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.environment_holds import IS_BUILDING
from agentjobs.jobs.queue.fleet import FleetState, decode_tags
from agentjobs.jobs.queue.platform_outages import has_outage
from agentjobs.store.database import Row
from agentjobs_runtime.clock import now_ms

# Limit of the query, before rows with the same reason are added up.
_MAX_ROWS = 500
# The reason of jobs that only wait for those ahead of them.
NEXT = "next"

_GROUP = (
    "organization_id, organization, plan, paused_at, agent, required_tags, limited_repo_id,"
    " repo_limit, has_outage, is_building"
)
_WAITING = (
    f"SELECT {_GROUP}, COUNT(*) AS jobs, MIN(queued_at) AS oldest_at FROM"
    " (SELECT j.organization_id, o.name AS organization, o.plan, o.paused_at, j.agent,"
    "  j.queued_at, r.required_tags, r.max_concurrent_jobs AS repo_limit,"
    "  CASE WHEN r.max_concurrent_jobs IS NOT NULL THEN r.id END AS limited_repo_id,"
    f"  {has_outage('q')} AS has_outage, {IS_BUILDING.format(job='q')} AS is_building"
    "  FROM job_queue q CROSS JOIN jobs j"
    "  JOIN organizations o ON o.id = j.organization_id JOIN repos r ON r.id = j.repo_id"
    "  WHERE q.lease_owner IS NULL AND j.id = q.job_id) waiting"
    f" GROUP BY {_GROUP} ORDER BY oldest_at LIMIT :limit"
)


class WaitingJobs(msgspec.Struct, frozen=True):
    organization: str
    agent: str
    reason: str
    jobs: int
    oldest_at: int


class WaitingList(msgspec.Struct, frozen=True):
    """The longest-waiting first. `is_cut`: there were too many, and the newest are left out."""

    groups: list[WaitingJobs]
    is_cut: bool


async def list_waiting(context: JobsContext, limit: int = _MAX_ROWS) -> WaitingList:
    rows = await context.db.fetch_all(_WAITING, limit=limit + 1, now=now_ms())
    fleet = await context.fleet.state()
    active_by_repo = Counter(job.repo_id for job in fleet.queue.running)
    groups: dict[tuple[str, str, str], WaitingJobs] = {}
    for row in rows[:limit]:
        reason = _reason(context, row, fleet, active_by_repo)
        key = (row["organization"], row["agent"], reason)
        # The rows are in the order of their oldest job.
        first = groups.get(key)
        jobs = row["jobs"] + (first.jobs if first else 0)
        oldest_at = first.oldest_at if first else row["oldest_at"]
        groups[key] = WaitingJobs(*key, jobs, oldest_at)
    return WaitingList(list(groups.values()), is_cut=len(rows) > limit)


def _reason(context: JobsContext, row: Row, fleet: FleetState, active_by_repo: Counter[str]) -> str:
    """The reason as the API gives it for one job, in the same order."""
    agent = context.catalog.get(row["agent"])
    agent_limit = None if agent is None else agent.max_concurrent_jobs
    reasons = {
        "paused": fleet.paused_at is not None or row["paused_at"] is not None,
        "plan_limit": fleet.active_of[row["organization_id"]]
        >= context.plans.concurrent_jobs(row["plan"]),
        "repo_limit": row["repo_limit"] is not None
        and active_by_repo[row["limited_repo_id"]] >= row["repo_limit"],
        "agent_limit": agent_limit is not None
        and fleet.active_by_agent[row["agent"]] >= agent_limit,
        "unreachable": bool(row["has_outage"]),
        "environment_building": bool(row["is_building"]),
    }
    reached = next((reason for reason, is_reached in reasons.items() if is_reached), None)
    return reached or fleet.queue_reason(row["agent"], decode_tags(row["required_tags"])) or NEXT
