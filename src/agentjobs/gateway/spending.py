"""The two spending tables: adds to a job's row and to its organization's day, and tells the sums.

Knows no limits: whoever calls may still let the transaction fail.
"""

from typing import NamedTuple

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.store.database import Transaction


class Spent(NamedTuple):
    """The sums, with what was just added; `day` since the epoch, in UTC."""

    by_job: int
    input_tokens: int
    output_tokens: int
    requests: int
    day: int
    on_day: int


async def charge(
    tx: Transaction,
    *,
    job_id: str,
    organization_id: str,
    nanousd: int,
    input_tokens: int = 0,
    output_tokens: int = 0,
    requests: int = 0,
    day: int | None = None,
) -> Spent:
    """On this day, or today by the store's clock. Both rows are ours until the transaction ends.

    Everybody takes the job's row first and the day's second, so nobody waits in a circle.
    """
    if day is None and tx.engine == "sqlite":
        day = now_ms() // DAY_MS
    row = await tx.fetch_one(
        _CHARGE,
        job_id=job_id,
        organization_id=organization_id,
        nanousd=nanousd,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        requests=requests,
        day=day,
    )
    assert row is not None
    if tx.engine == "sqlite":
        that_day = await tx.fetch_one(
            _CHARGE_DAY, organization_id=organization_id, day=day, nanousd=nanousd
        )
    else:
        that_day = row
    assert that_day is not None
    return Spent(
        row["spent_nanousd"],
        row["input_tokens"],
        row["output_tokens"],
        row["requests"],
        row["day"],
        that_day["spent_on_day"],
    )


# On PostgreSQL a single statement: every one is a way there and back. That the second insert reads
# what the first returned fixes their order.
_CHARGE = """
    /*postgresql WITH job AS ( */
    INSERT INTO job_spending (job_id, spent_nanousd, input_tokens, output_tokens, requests)
    VALUES (:job_id, :nanousd, :input_tokens, :output_tokens, :requests)
    ON CONFLICT (job_id) DO UPDATE SET
        spent_nanousd = job_spending.spent_nanousd + excluded.spent_nanousd,
        input_tokens = job_spending.input_tokens + excluded.input_tokens,
        output_tokens = job_spending.output_tokens + excluded.output_tokens,
        requests = job_spending.requests + excluded.requests
    RETURNING spent_nanousd, input_tokens, output_tokens, requests,
        /*sqlite CAST(:day AS BIGINT) */
        /*postgresql coalesce(
            CAST(:day AS BIGINT),
            CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) / 86400000
        ) */ AS day
    /*postgresql ), that_day AS (
        INSERT INTO daily_spending (organization_id, day, spent_nanousd)
        SELECT CAST(:organization_id AS TEXT), job.day, CAST(:nanousd AS BIGINT) FROM job
        ON CONFLICT (organization_id, day) DO UPDATE SET
            spent_nanousd = daily_spending.spent_nanousd + excluded.spent_nanousd
        RETURNING spent_nanousd AS spent_on_day
    )
    SELECT job.*, that_day.spent_on_day FROM job CROSS JOIN that_day */
"""
_CHARGE_DAY = """
    INSERT INTO daily_spending (organization_id, day, spent_nanousd)
    VALUES (:organization_id, :day, :nanousd)
    ON CONFLICT (organization_id, day) DO UPDATE SET
        spent_nanousd = daily_spending.spent_nanousd + excluded.spent_nanousd
    RETURNING spent_nanousd AS spent_on_day
"""
