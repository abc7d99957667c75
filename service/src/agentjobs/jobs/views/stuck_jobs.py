"""Queued jobs that no running worker can start, and what an operator can do about it."""

from collections.abc import Collection, Sequence

import msgspec

from agentjobs.environments.status import can_build
from agentjobs.jobs.operations.workers import WorkerView
from agentjobs.jobs.queue.fleet import DISK_FULL, decode_tags
from agentjobs.store.database import Database
from agentjobs_runtime.settings import Settings

_WAITING = (
    "SELECT j.agent, r.required_tags, COUNT(*) AS jobs, MIN(j.queued_at) AS oldest_at,"
    " COUNT(q.environment_key) AS with_environment"
    " FROM job_queue q CROSS JOIN jobs j CROSS JOIN repos r"
    " WHERE q.lease_owner IS NULL AND j.id = q.job_id AND r.id = q.repo_id"
    " GROUP BY j.agent, r.required_tags ORDER BY j.agent, r.required_tags"
)
# A few workers of a large fleet explain enough.
_MAX_REASONS = 3


class WaitingJobs(msgspec.Struct, frozen=True):
    """Queued jobs of one agent; `reason` is None if a running worker can start them."""

    agent: str
    jobs: int
    # Since when the oldest of them waits.
    oldest_at: int
    reason: str | None


async def waiting_jobs(
    db: Database, settings: Settings, workers: Sequence[WorkerView]
) -> list[WaitingJobs]:
    rows = await db.fetch_all(_WAITING)
    has_environments = any(row["with_environment"] for row in rows)
    lacks_environments = has_environments and not await can_build(db, settings)
    waiting = []
    for row in rows:
        reason = why_no_worker(row["agent"], decode_tags(row["required_tags"]), workers)
        if reason is None and row["with_environment"] and lacks_environments:
            reason = (
                "no running worker can provide the environment of the repository: run"
                " `agentjobs doctor` on the machines of the workers"
            )
        waiting.append(WaitingJobs(row["agent"], row["jobs"], row["oldest_at"], reason))
    return waiting


def why_no_worker(agent: str, tags: Collection[str], workers: Sequence[WorkerView]) -> str | None:
    """Why none of the workers can start a job of this agent on a repository with these tags."""
    running = [worker for worker in workers if worker.status != "silent"]
    active = [worker for worker in running if worker.status in ("ready", "unready")]
    able = [worker for worker in active if set(worker.tags).issuperset(tags)]
    if any(agent in worker.agents for worker in able):
        return None
    if not running:
        return "no worker is running: start `agentjobs worker`, or `agentjobs up`"
    if not active:
        return (
            "all workers are drained or stopping: start another one, or run"
            " `agentjobs workers drain WORKER --undo`"
        )
    if not able:
        wanted = ",".join(sorted(tags))
        return (
            "no running worker has all tags that the repository requires: start `agentjobs worker"
            f" --tags {wanted}`, or change them with `agentjobs repos set`"
        )
    reasons = {
        f"{worker.hostname}: {reason}"
        for worker in able
        if (reason := worker.unready.get(agent) or worker.sandbox_problem)
    }
    if not reasons:
        return (
            "no running worker knows this agent: add it to agentjobs.toml on their machines and"
            " restart them, or cancel the jobs"
        )
    return "; ".join(sorted(reasons)[:_MAX_REASONS])


def is_disk_full(worker: WorkerView) -> bool:
    return DISK_FULL in worker.unready.values()
