"""Events of transactions that end late, on PostgreSQL: none is skipped, and none delays others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs.store.opening import open_unchecked
from agentjobs.webhooks.event_listing import _number_batch
from agentjobs.webhooks.events import record_events
from service.tests.contract.webhooks.test_event_listing import an_event, keys, read, store

LOCK = 19

Work = Callable[[Transaction], Awaitable[None]]


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    db = await open_unchecked(postgres_url, listen=False)
    yield db
    await db.close()


@pytest.fixture
async def holder(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Holds the lock that `hold_open` waits for."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
    yield connection
    await connection.close()


async def hold_open(db: Database, holder: asyncpg.Connection, work: Work) -> asyncio.Task[None]:
    """Does the work in a transaction that ends after `release`."""

    async def work_and_wait(tx: Transaction) -> None:
        await work(tx)
        await tx.fetch_one("SELECT pg_advisory_xact_lock(:lock)", lock=LOCK)

    task = asyncio.create_task(db.transact(work_and_wait))
    async with asyncio.timeout(30):
        while not await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert not task.done()
    return task


async def release(holder: asyncpg.Connection) -> None:
    await holder.execute("SELECT pg_advisory_unlock($1)", LOCK)


async def test_an_event_that_is_inserted_first_and_committed_last_is_not_skipped(
    database: Database, holder: asyncpg.Connection
) -> None:
    async def insert(tx: Transaction) -> None:
        await record_events(tx, [an_event("job_slow", at_ms=1)])

    transaction = await hold_open(database, holder, insert)
    await store(database, an_event("job_fast", at_ms=2))
    seen = await read(database)
    assert keys(seen) == [("job_fast", 1)]
    assert await read(database, seen[-1].position) == []
    await release(holder)
    await transaction
    late = await read(database, seen[-1].position)
    assert keys(late) == [("job_slow", 1)]
    assert await read(database) == seen + late


async def test_a_job_that_is_being_deleted_delays_no_listing(
    database: Database, holder: asyncpg.Connection
) -> None:
    await store(database, an_event("job_old", at_ms=1), an_event("job_new", at_ms=2))

    async def delete(tx: Transaction) -> None:
        await tx.execute("DELETE FROM events WHERE job_id = 'job_old'")

    transaction = await hold_open(database, holder, delete)
    async with asyncio.timeout(30):
        assert keys(await read(database)) == [("job_new", 1)]
    await release(holder)
    await transaction
    assert keys(await read(database)) == [("job_new", 1)]


async def test_a_reader_that_dies_while_it_numbers_events_leaves_them_to_the_next(
    database: Database, holder: asyncpg.Connection, postgres_url: str
) -> None:
    await store(database, an_event("job_a"))

    async def number(tx: Transaction) -> None:
        await _number_batch(tx, "org_a", 10)

    dying = await open_unchecked(postgres_url, listen=False)
    transaction = await hold_open(dying, holder, number)
    waiting = asyncio.create_task(read(database))
    async with asyncio.timeout(30):
        while await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 2:
            assert not waiting.done()
        await holder.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND NOT granted"
        )
        assert keys(await waiting) == [("job_a", 1)]
    with pytest.raises(StoreUnavailable):
        await transaction
    await dying.close()
