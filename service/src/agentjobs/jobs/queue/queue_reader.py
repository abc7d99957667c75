"""Reads what forecasts start from: running and waiting jobs, and how recent ones went."""

import time
from collections.abc import Iterable, Mapping, Sequence

from agentjobs.jobs.queue.claim import is_on_worker
from agentjobs.jobs.queue.durations import Durations, FinishedJob
from agentjobs.jobs.queue.insert import PRIORITY_MS
from agentjobs.jobs.queue.queue_model import Arrivals, Backlog, Pool, Queue, RunningJob
from agentjobs.jobs.states import RUNNING
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Row
from agentjobs.worker_part.agents import Catalog
from agentjobs_runtime.identifiers import first_id_at

_HISTORY_SECONDS = 10.0
_MAX_RUNNING = 5_000
_RECENT_JOBS = 500
_ARRIVALS_MS = 3_600_000
_RUNNING = (
    "SELECT q.organization_id, q.agent, q.repo_id, q.lease_owner, j.status, j.started_at, o.plan"
    " FROM job_queue q JOIN jobs j ON j.id = q.job_id"
    " JOIN organizations o ON o.id = q.organization_id"
    f" WHERE {is_on_worker('q')} LIMIT :limit"
)
# Each of the two reads only an index.
_WAITING_BY_AGENT = (
    "SELECT agent, organization_id, COUNT(*) AS jobs FROM job_queue"
    " WHERE lease_owner IS NULL GROUP BY agent, organization_id"
)
_WAITING_IN_ORDER = (
    "SELECT o.id, o.plan, o.paused_at, c.last_claimed_at, waiting.* FROM"
    " (SELECT organization_id,"
    + ", ".join(
        f"SUM(CASE WHEN queue_order <= :before_{priority} THEN 1 ELSE 0 END) AS before_{priority}"
        for priority in PRIORITY_MS
    )
    + " FROM job_queue /*sqlite INDEXED BY job_queue_waiting_in_order */"
    " WHERE lease_owner IS NULL GROUP BY organization_id) waiting"
    " JOIN organizations o ON o.id = waiting.organization_id"
    " LEFT JOIN claimed_organizations c ON c.organization_id = o.id"
)
_FINISHED = (
    "SELECT agent, repo_id, started_at, completed_at FROM jobs WHERE completed_at IS NOT NULL"
    " AND started_at IS NOT NULL ORDER BY completed_at DESC LIMIT :limit"
)
_CREATED = (
    "SELECT j.organization_id, j.agent, j.created_at, o.plan FROM jobs j"
    " JOIN organizations o ON o.id = j.organization_id"
    " WHERE j.id >= :since ORDER BY j.id DESC LIMIT :limit"
)
_REPO_LIMITS = "SELECT id, max_concurrent_jobs FROM repos WHERE max_concurrent_jobs IS NOT NULL"


class QueueReader:
    def __init__(self, db: Database, plans: Plans, catalog: Catalog) -> None:
        self._db = db
        self._plans = plans
        self._catalog = catalog
        self._history_read_at = -_HISTORY_SECONDS
        self._durations = Durations()
        self._created: list[Row] = []

    async def read(self, pools: Sequence[Pool], pool_of: Mapping[str, int]) -> Queue:
        """`pool_of` has the place of each worker's pool."""
        now = await self._db.clock_ms()
        await self._read_history(now)
        running = await self._db.fetch_all(_RUNNING, limit=_MAX_RUNNING)
        by_agent = await self._db.fetch_all(_WAITING_BY_AGENT)
        in_order = await self._db.fetch_all(
            _WAITING_IN_ORDER,
            **{f"before_{priority}": now + ms for priority, ms in PRIORITY_MS.items()},
        )
        repo_limits = await self._db.fetch_all(_REPO_LIMITS)
        return Queue(
            pools=pools,
            running=[_running_job(row, pool_of, now) for row in running],
            backlogs=_backlogs(in_order, by_agent, now),
            limits={
                row["organization_id"]: self._plans.concurrent_jobs(row["plan"])
                for row in (*running, *in_order, *self._created)
            },
            agent_limits={
                agent.id: agent.max_concurrent_jobs
                for agent in self._catalog.all()
                if agent.max_concurrent_jobs is not None
            },
            repo_limits={row["id"]: row["max_concurrent_jobs"] for row in repo_limits},
            durations=self._durations,
            arrivals=_arrivals(self._created, now),
        )

    def forget(self) -> None:
        """Read the history again on next use."""
        self._history_read_at = -_HISTORY_SECONDS

    async def _read_history(self, now: int) -> None:
        if time.monotonic() - self._history_read_at < _HISTORY_SECONDS:
            return
        self._history_read_at = time.monotonic()
        finished = await self._db.fetch_all(_FINISHED, limit=_RECENT_JOBS)
        self._durations = Durations(map(_finished_job, finished))
        self._created = await self._db.fetch_all(
            _CREATED, since=first_id_at("job", now - _ARRIVALS_MS), limit=_RECENT_JOBS
        )


def _finished_job(row: Row) -> FinishedJob:
    return FinishedJob(row["agent"], row["repo_id"], row["completed_at"] - row["started_at"])


def _running_job(row: Row, pool_of: Mapping[str, int], now: int) -> RunningJob:
    """A job that is claimed and still being prepared has run for no time."""
    elapsed_ms = max(now - row["started_at"], 0) if row["status"] == RUNNING else 0
    pool = pool_of.get(row["lease_owner"])
    return RunningJob(row["organization_id"], row["agent"], row["repo_id"], pool, elapsed_ms)


def _backlogs(in_order: Iterable[Row], by_agent: Iterable[Row], now: int) -> dict[str, Backlog]:
    """Backlogs of organizations that are not paused."""
    agents: dict[str, dict[str, int]] = {}
    for row in by_agent:
        agents.setdefault(row["organization_id"], {})[row["agent"]] = row["jobs"]
    return {
        row["organization_id"]: Backlog(
            agents.get(row["organization_id"], {}),
            {priority: int(row[f"before_{priority}"]) for priority in PRIORITY_MS},
            max(now - (row["last_claimed_at"] or 0), 0),
        )
        for row in in_order
        if row["paused_at"] is None
    }


def _arrivals(created: Sequence[Row], now: int) -> Arrivals:
    """The oldest is the last; before it there may be others that were not read."""
    if not created:
        return Arrivals()
    is_whole = len(created) < _RECENT_JOBS
    window_ms = _ARRIVALS_MS if is_whole else max(now - created[-1]["created_at"], 1)
    return Arrivals([(row["organization_id"], row["agent"]) for row in created], window_ms)
