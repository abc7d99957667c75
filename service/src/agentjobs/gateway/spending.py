"""The two spending tables: adds to the rows of a job and of its organization's day.

Returns the sums. The caller checks the limits and may roll the transaction back.
"""

from typing import Any, NamedTuple

import msgspec

from agentjobs.store.database import Row, Transaction
from agentjobs_runtime.clock import DAY_MS, now_ms


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts to add; `day` is None for today by the database's clock."""

    job_id: str
    organization_id: str
    nanousd: int
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    day: int | None = None


class Spent(NamedTuple):
    """The sums after the addition; `day` counts from the epoch, in UTC."""

    by_job: int
    input_tokens: int
    output_tokens: int
    requests: int
    day: int
    on_day: int


async def charge(tx: Transaction, entry: Entry) -> Spent:
    """Locks both rows until the transaction ends.

    The job's row is always locked before the day's, which rules out deadlocks.
    """
    if tx.engine == "sqlite":
        return await _charge_sqlite(tx, entry)
    return await _charge_postgresql(tx, entry)


async def _charge_postgresql(tx: Transaction, entry: Entry) -> Spent:
    row = await _fetch_row(tx, _CHARGE, **msgspec.structs.asdict(entry))
    return _spent(row, row["spent_on_day"])


async def _charge_sqlite(tx: Transaction, entry: Entry) -> Spent:
    if entry.day is None:
        entry = msgspec.structs.replace(entry, day=now_ms() // DAY_MS)
    row = await _fetch_row(tx, _CHARGE, **msgspec.structs.asdict(entry))
    that_day = await _fetch_row(
        tx,
        _CHARGE_DAY,
        organization_id=entry.organization_id,
        day=entry.day,
        nanousd=entry.nanousd,
    )
    return _spent(row, that_day["spent_on_day"])


async def _fetch_row(tx: Transaction, sql: str, **values: Any) -> Row:
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
