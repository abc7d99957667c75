"""Reads the sums of each hour of an organization from the database."""

from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.store.database import Database, to_struct
from agentjobs_runtime.clock import HOUR_MS
from agentjobs_runtime.identifiers import first_id_at

# Identifiers begin with their time: ranges of indexes are counted without reading rows.
_COUNTS = (
    "SELECT hour.value AS hour,"
    " (SELECT COUNT(*) FROM jobs j /*sqlite INDEXED BY jobs_of_organization */"
    "  WHERE j.organization_id = :organization_id"
    "  AND j.id >= 'job_' || SUBSTR(hour.value, 1, 26)"
    "  AND j.id < 'job_' || SUBSTR(hour.value, 27, 26)) AS accepted,"
    + ",".join(
        f" (SELECT COUNT(*) FROM deliveries d WHERE d.organization_id = :organization_id"
        f"  AND d.status || '' = '{status}' AND d.id >= 'dlv_' || SUBSTR(hour.value, 1, 26)"
        f"  AND d.id < 'dlv_' || SUBSTR(hour.value, 27, 26)) AS {status}"
        for status in ("delivered", "failed", "pending")
    )
    + " FROM (SELECT value FROM each(:hours)) AS hour"
)
# A subquery per row for the cost: with a join PostgreSQL may read the spending of all jobs.
_FINISHED = (
    f"SELECT completed_at / {HOUR_MS} AS hour, agent, status, COUNT(*) AS jobs,"
    " COUNT(CASE WHEN started_at >= queued_at THEN 1 END) AS waited,"
    " SUM(CASE WHEN started_at >= queued_at THEN started_at - queued_at ELSE 0 END) AS wait_ms,"
    " COUNT(started_at) AS ran, COALESCE(SUM(completed_at - started_at), 0) AS run_ms,"
    " COALESCE(SUM((SELECT s.spent_nanousd FROM job_spending s WHERE s.job_id = jobs.id)), 0)"
    "  AS cost_nanousd"
    " FROM jobs /*sqlite INDEXED BY jobs_finished_of_organization */"
    " WHERE organization_id = :organization_id AND completed_at IS NOT NULL"
    " AND completed_at >= :from_ms AND completed_at < :to_ms"
    f" GROUP BY completed_at / {HOUR_MS}, agent, status"
)


class Counts(msgspec.Struct, frozen=True):
    """Jobs accepted in the hour, and the current state of deliveries created in it."""

    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    pending: int = 0


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one agent that finished in the hour with one status, and their sums."""

    agent: str
    status: str
    jobs: int
    waited: int
    wait_ms: int
    ran: int
    run_ms: int
    cost_nanousd: int


async def read_counts(
    db: Database, organization_id: str, hours: Iterable[int]
) -> dict[int, Counts]:
    bounds = {_bounds(hour): hour for hour in hours}
    if not bounds:
        return {}
    rows = await db.fetch_all(_COUNTS, organization_id=organization_id, hours=list(bounds))
    return {bounds[row["hour"]]: to_struct(row, Counts) for row in rows}


async def read_finished(
    db: Database, organization_id: str, first: int, last: int
) -> dict[int, Sequence[Finished]]:
    """Reads from the first to the last hour, without hours in which nothing finished."""
    rows = await db.fetch_all(
        _FINISHED,
        organization_id=organization_id,
        from_ms=first * HOUR_MS,
        to_ms=(last + 1) * HOUR_MS,
    )
    by_hour: dict[int, list[Finished]] = {}
    for row in rows:
        # PostgreSQL returns sums as numeric.
        sums = {name: int(row[name]) for name in ("wait_ms", "run_ms", "cost_nanousd")}
        by_hour.setdefault(int(row["hour"]), []).append(to_struct(row, Finished, **sums))
    return {hour: tuple(counts) for hour, counts in by_hour.items()}


def _bounds(hour: int) -> str:
    """The first identifier of the hour and that of the next, concatenated without prefixes."""
    return "".join(first_id_at("", at * HOUR_MS)[1:] for at in (hour, hour + 1))
