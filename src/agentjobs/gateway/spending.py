"""The two spending tables: adds to a job's row and to its organization's day, and tells the sums.

Knows no limits: whoever calls may still let the transaction fail.
"""

from typing import Any, NamedTuple

import msgspec

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.store.database import Row, Transaction


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is added; `day` is None for today by the store's clock."""

    job_id: str
    organization_id: str
    nanousd: int
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    day: int | None = None


class Spent(NamedTuple):
    """The sums, with what was just added; `day` since the epoch, in UTC."""

    by_job: int
    input_tokens: int
    output_tokens: int
    requests: int
    day: int
    on_day: int


async def charge(tx: Transaction, entry: Entry) -> Spent:
    """Both rows are ours until the transaction ends.

    Everybody takes the job's row first and the day's second, so nobody waits in a circle.
    """
    if tx.engine == "sqlite":
        return await _charge_one_by_one(tx, entry)
    return await _charge_at_once(tx, entry)


async def _charge_at_once(tx: Transaction, entry: Entry) -> Spent:
    row = await _written(tx, _CHARGE, **msgspec.structs.asdict(entry))
    return _spent(row, row["spent_on_day"])


async def _charge_one_by_one(tx: Transaction, entry: Entry) -> Spent:
    if entry.day is None:
        entry = msgspec.structs.replace(entry, day=now_ms() // DAY_MS)
    row = await _written(tx, _CHARGE, **msgspec.structs.asdict(entry))
    that_day = await _written(
        tx,
        _CHARGE_DAY,
        organization_id=entry.organization_id,
        day=entry.day,
        nanousd=entry.nanousd,
    )
    return _spent(row, that_day["spent_on_day"])


async def _written(tx: Transaction, sql: str, **values: Any) -> Row:
    row = await tx.fetch_one(sql, **values)
    assert row is not None
    return row


def _spent(row: Row, on_day: int) -> Spent:
    return Spent(
        by_job=row["spent_nanousd"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        requests=row["requests"],
        day=row["day"],
        on_day=on_day,
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
