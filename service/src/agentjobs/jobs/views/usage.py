"""What an organization's jobs of a period used: one query, summed in the database."""

from typing import Literal

import msgspec

from agentjobs.jobs.states import STATUSES
from agentjobs.store.database import Database, Row
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at

GroupBy = Literal["agent", "repo", "day"]

MAX_GROUPS = 1_000
# The key of all further groups.
OTHER = "other"

_KEYS = {
    None: "j.organization_id",
    "agent": "j.agent",
    "repo": "j.repo",
    "day": f"CAST(j.created_at / {DAY_MS} AS TEXT)",
}
# Identifiers contain the time of the process that created them, rows that of the database.
_CLOCK_DIFFERENCE_MS = 3_600_000
_SUMS = ("jobs", *STATUSES, "agent_ms", "input_tokens", "output_tokens", "cost_nanousd")
_QUERY = (
    "WITH grouped AS (SELECT {key} AS name, COUNT(*) AS jobs, "
    + "".join(
        f"COUNT(CASE WHEN j.status = '{status}' THEN 1 END) AS {status}, " for status in STATUSES
    )
    + "SUM(CASE WHEN j.completed_at > j.started_at THEN j.completed_at - j.started_at"
    "  WHEN j.status = 'running' AND j.started_at < :now THEN :now - j.started_at ELSE 0 END)"
    "  AS agent_ms,"
    " SUM(COALESCE(s.input_tokens, 0)) AS input_tokens,"
    " SUM(COALESCE(s.output_tokens, 0)) AS output_tokens,"
    " SUM(COALESCE(s.spent_nanousd, 0)) AS cost_nanousd"
    " FROM jobs j /*sqlite INDEXED BY jobs_of_organization */"
    # Without OFFSET, PostgreSQL may read the spending of all jobs.
    " LEFT JOIN /*postgresql LATERAL (SELECT * FROM job_spending WHERE job_id = j.id OFFSET 0) */"
    " /*sqlite job_spending */ s ON s.job_id = j.id"
    " WHERE j.organization_id = :organization_id AND j.id >= :first_id AND j.id < :last_id"
    " AND j.created_at >= :from_ms AND j.created_at < :to_ms GROUP BY {key}),"
    " ranked AS (SELECT grouped.*, ROW_NUMBER() OVER (ORDER BY jobs DESC, name) AS place"
    "  FROM grouped)"
    " SELECT CASE WHEN place <= :max_groups THEN name END AS name, MIN(place) AS place, "
    + ", ".join(f"SUM({name}) AS {name}" for name in _SUMS)
    + " FROM ranked GROUP BY CASE WHEN place <= :max_groups THEN name END ORDER BY 2"
)


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is an agent, a repository, or the number of a day since the epoch; None for the rest.

    `agent_ms` is how long agents ran, in the last attempt of each job.
    """

    key: str | None
    jobs: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    agent_ms: int
    input_tokens: int
    output_tokens: int
    cost_nanousd: int


async def read_usage(
    db: Database,
    organization_id: str,
    *,
    from_ms: int,
    to_ms: int,
    group_by: GroupBy | None = None,
    max_groups: int = MAX_GROUPS,
) -> list[Sums]:
    """Groups jobs created from `from_ms` until before `to_ms`, those with most jobs first."""
    rows = await db.fetch_all(
        _QUERY.format(key=_KEYS[group_by]),
        organization_id=organization_id,
        first_id=first_id_at("job", max(from_ms - _CLOCK_DIFFERENCE_MS, 0)),
        last_id=first_id_at("job", to_ms + _CLOCK_DIFFERENCE_MS),
        from_ms=from_ms,
        to_ms=to_ms,
        now=await db.clock_ms(),
        max_groups=max_groups,
    )
    return [_sums(row) for row in rows]


def add_up(groups: list[Sums]) -> Sums:
    return Sums(key=None, **{name: sum(getattr(group, name) for group in groups) for name in _SUMS})


def _sums(row: Row) -> Sums:
    # PostgreSQL returns sums as numeric.
    return Sums(key=row["name"], **{name: int(row[name]) for name in _SUMS})
