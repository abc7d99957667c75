"""Calls that wait together share a transaction or a read, and only the one that fails fails."""

import asyncio
from collections.abc import Sequence

import pytest

from agentjobs.store.database import Database, Transaction
from agentjobs.store.grouping import read_together, transact_together

sizes: list[int] = []


async def double(tx: Transaction, numbers: Sequence[int]) -> list[int]:
    sizes.append(len(numbers))
    await tx.fetch_one("SELECT 1 AS one")
    if 13 in numbers:
        raise ValueError("unlucky")
    return [2 * number for number in numbers]


async def increment(db: Database, numbers: Sequence[int]) -> list[int]:
    sizes.append(len(numbers))
    await db.fetch_all("SELECT 1 AS one")
    if 13 in numbers:
        raise ValueError("unlucky")
    return [number + 1 for number in numbers]


async def test_reads_that_wait_share_one_call(database: Database) -> None:
    sizes.clear()
    calls = (read_together(database, increment, n) for n in range(5, 15))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results.pop(8), ValueError)
    assert results == [*range(6, 14), 15]
    assert max(sizes) > 1


async def test_calls_that_wait_share_one_transaction(database: Database) -> None:
    sizes.clear()
    results = await asyncio.gather(*(transact_together(database, double, n) for n in range(10)))
    assert results == [2 * number for number in range(10)]
    assert len(sizes) < 10
    assert sum(sizes) == 10


is_running = False


async def run_alone(tx: Transaction, numbers: Sequence[int]) -> Sequence[int]:
    global is_running  # noqa: PLW0603 - whatever transaction it is
    assert not is_running
    is_running = True
    await tx.fetch_one("SELECT 1 AS one")
    is_running = False
    return numbers


async def test_transactions_of_one_kind_run_one_after_the_other(database: Database) -> None:
    for next_call in asyncio.as_completed(
        [transact_together(database, run_alone, number) for number in range(15)]
    ):
        await next_call


async def test_an_error_reaches_its_own_caller_only(database: Database) -> None:
    calls = (transact_together(database, double, n) for n in (12, 13, 14))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert results[0::2] == [24, 28]
    assert isinstance(results[1], ValueError)


async def test_a_cancelled_caller_does_not_disturb_the_others(database: Database) -> None:
    calls = [asyncio.create_task(transact_together(database, double, n)) for n in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    assert await calls[0] == 0
    assert await calls[2] == 4
    with pytest.raises(asyncio.CancelledError):
        await calls[1]
