"""The two spending tables: adds to the rows of a job and of its organization's day.

Returns the sums. The caller checks the limits and may roll the transaction back.
"""

from typing import Any

import msgspec

from agentjobs.store.database import Row, Transaction, to_struct
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.money import NANOUSD_PER_USD


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has spent so far, including open reservations."""

    input_tokens: int
    output_tokens: int
    cost_nanousd: int
    requests: int

    def as_usage(self) -> dict[str, int | float]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_nanousd / NANOUSD_PER_USD,
            "requests": self.requests,
        }


class Spent(msgspec.Struct, frozen=True):
    """The sums after an addition; `day` counts from the epoch, in UTC."""

    totals: Totals
    day: int
    on_day: int


async def charge(
    tx: Transaction,
    job_id: str,
    organization_id: str,
    nanousd: int,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    requests: int = 0,
    day: int | None = None,
) -> Spent:
    """Locks both rows until the transaction ends. `day` is today by default.

    The job's row is always locked before the day's, which rules out deadlocks.
    """
    if day is None and tx.engine == "sqlite":
        day = now_ms() // DAY_MS
    of_day = {"organization_id": organization_id, "day": day, "nanousd": nanousd}
    of_job = {"input_tokens": input_tokens, "output_tokens": output_tokens, "requests": requests}
    row = that_day = await _fetch_row(tx, _CHARGE, job_id=job_id, **of_job, **of_day)
    if tx.engine == "sqlite":
        that_day = await _fetch_row(tx, _CHARGE_DAY, **of_day)
    totals = to_struct(row, Totals, cost_nanousd=row["spent_nanousd"])
    return Spent(totals, row["day"], that_day["spent_on_day"])


async def _fetch_row(tx: Transaction, sql: str, **values: Any) -> Row:
    row = await tx.fetch_one(sql, **values)
    assert row is not None
    return row


# A single statement on PostgreSQL saves a round trip. The second insert reads the result of the
# first, which fixes their order.
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
