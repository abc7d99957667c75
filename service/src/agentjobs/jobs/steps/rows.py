"""Stores the steps of a job's latest attempt; only the holder of the claim can write them."""

from collections.abc import Sequence

import msgspec

from agentjobs.jobs.queue.claim import lock_claim
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.agents.steps import StepKind, StoredStep
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost

_COLUMNS = "sequence, started_at, kind, title, state, exit_code, duration_ms, cost_nanousd"
# A worker that was lost ended none of its steps.
_READ_COLUMNS = _COLUMNS.replace(
    "state",
    "CASE WHEN state = 'running' AND EXISTS (SELECT 1 FROM jobs WHERE id = :job_id"
    " AND status IN ('completed', 'failed', 'cancelled'))"
    " THEN 'unfinished' ELSE state END AS state",
)


async def last_sequence(db: Database, job_id: str) -> int:
    """0 if there is no step."""
    row = await db.fetch_one(
        "SELECT MAX(sequence) AS last FROM job_steps WHERE job_id = :job_id", job_id=job_id
    )
    return 0 if row is None else row["last"] or 0


@in_transaction
async def store_steps(
    tx: Transaction, job: ClaimedJob, steps: Sequence[StoredStep], *, after: int
) -> None:
    """Inserts steps, or replaces those that have ended since. Raises ClaimLost.

    Steps up to `after` are those of a worker whose agent this one continues: it cannot end them.
    """
    if not await lock_claim(tx, job):
        raise ClaimLost
    if after:
        await tx.execute(
            "UPDATE job_steps SET state = 'unfinished'"
            " WHERE job_id = :job_id AND sequence <= :after AND state = 'running'",
            job_id=job.id,
            after=after,
        )
    await tx.execute_many(
        f"INSERT INTO job_steps (job_id, {_COLUMNS}, detail)"
        " VALUES (:job_id, :sequence, :started_at, :kind, :title, :state, :exit_code,"
        "  :duration_ms, :cost_nanousd, :detail)"
        " ON CONFLICT (job_id, sequence) DO UPDATE SET kind = excluded.kind,"
        " title = excluded.title, detail = excluded.detail, state = excluded.state,"
        " exit_code = excluded.exit_code, duration_ms = excluded.duration_ms",
        [{"job_id": job.id, **msgspec.structs.asdict(step)} for step in steps],
    )
    tx.announce(f"steps:{job.id}")


async def read_steps(
    db: Database,
    job_id: str,
    *,
    kind: StepKind | None = None,
    after: int = 0,
    skip: int = 0,
    limit: int = 1_000,
) -> list[StoredStep]:
    """Reads steps in the order of their numbers, with details."""
    rows = await db.fetch_all(
        f"SELECT {_READ_COLUMNS}, detail FROM job_steps"
        " WHERE job_id = :job_id AND sequence > :after"
        " AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)"
        " ORDER BY sequence LIMIT :limit OFFSET :skip",
        job_id=job_id,
        kind=kind,
        after=after,
        skip=skip,
        limit=limit,
    )
    return [to_struct(row, StoredStep) for row in rows]


class StepTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one kind. `titles` counts those with the same title once, such as a file."""

    steps: int = 0
    titles: int = 0
    failed: int = 0
    cost_nanousd: int = 0
    first_at: int = 0


async def count_steps(db: Database, job_id: str) -> dict[StepKind, StepTotal]:
    """Counts steps by kind; kinds without a step are missing."""
    rows = await db.fetch_all(
        "SELECT kind, COUNT(*) AS steps, COUNT(DISTINCT title) AS titles,"
        " COUNT(CASE WHEN state = 'failed' THEN 1 END) AS failed,"
        " CAST(COALESCE(SUM(cost_nanousd), 0) AS BIGINT) AS cost_nanousd,"
        " MIN(started_at) AS first_at"
        " FROM job_steps WHERE job_id = :job_id GROUP BY kind",
        job_id=job_id,
    )
    return {row["kind"]: to_struct(row, StepTotal) for row in rows}
