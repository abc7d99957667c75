"""The listing of an organization's events, on both stores: complete, in order, each event once."""

import asyncio
import random
import sqlite3
from itertools import count
from pathlib import Path

import msgspec
import pytest

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.queue.retention import prune
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_unchecked
from agentjobs.store.statements import render
from agentjobs.webhooks import event_listing
from agentjobs.webhooks.event_listing import ListedEvent, list_events, wait_for_events
from agentjobs.webhooks.events import (
    JOB_QUEUED,
    PING,
    JobEvent,
    record_events,
    store_test,
)
from agentjobs.webhooks.ping import sample_event
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from tests.support.jobs import JobHarness

Key = tuple[str, int]


def an_event(
    job_id: str, sequence: int = 1, organization_id: str = "org_a", at_ms: int | None = None
) -> JobEvent:
    return JobEvent(
        event=JOB_QUEUED,
        organization_id=organization_id,
        job_id=job_id,
        sequence=sequence,
        repo="acme/shop",
        pr_url=None,
        at_ms=now_ms() if at_ms is None else at_ms,
    )


async def store(db: Database, *events: JobEvent) -> None:
    await db.transact(record_events, events)


async def read(db: Database, after: int = 0, limit: int = 100) -> list[ListedEvent]:
    return await list_events(db, "org_a", after=after, limit=limit)


async def read_all(db: Database, limit: int) -> list[ListedEvent]:
    events: list[ListedEvent] = []
    while page := await read(db, events[-1].position if events else 0, limit):
        events += page
    return events


def keys(events: list[ListedEvent]) -> list[Key]:
    return [(event.job_id, event.sequence) for event in events]


async def test_events_are_listed_page_by_page_with_their_stored_bytes(database: Database) -> None:
    await store(database, *(an_event(f"job_{n}", at_ms=n) for n in range(5)))
    first = await read(database, limit=3)
    rest = await read(database, first[-1].position, limit=3)
    assert keys(first + rest) == [(f"job_{n}", 1) for n in range(5)]
    assert await read(database, rest[-1].position) == []
    assert bytes(first[0].body) == msgspec.json.encode(an_event("job_0", at_ms=0).payload)


async def test_an_event_keeps_its_position(database: Database) -> None:
    await store(database, an_event("job_b", at_ms=2))
    listed = await read(database)
    await store(database, an_event("job_a", at_ms=1))
    assert await read(database, limit=1) == listed
    assert keys(await read(database)) == [("job_b", 1), ("job_a", 1)]


async def test_events_of_other_organizations_and_pings_are_not_listed(
    database: Database,
) -> None:
    await database.transact(store_test, sample_event(PING))
    await store(database, an_event("job_a"), an_event("job_b", organization_id="org_b"))
    assert keys(await read(database)) == [("job_a", 1)]
    others = await list_events(database, "org_b", after=0, limit=10)
    assert keys(others) == [("job_b", 1)]


async def test_a_job_s_events_are_in_order_although_their_times_are_not(
    database: Database,
) -> None:
    await store(database, an_event("job_a", 1, at_ms=30), an_event("job_a", 2, at_ms=10))
    await store(database, an_event("job_b", 1, at_ms=20), an_event("job_a", 3, at_ms=5))
    # Small pages, so that the earliest event is not among the first that are read.
    listed = keys(await read_all(database, limit=1))
    assert [key for key in listed if key[0] == "job_a"] == [("job_a", n) for n in (1, 2, 3)]
    assert len(listed) == 4


async def test_more_events_than_one_batch_are_listed_in_one_page(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listing, "_MAX_BATCH", 4)
    expected = [(f"job_{n:02}", 1) for n in range(30)]
    await store(database, *(an_event(job, at_ms=n) for n, (job, _) in enumerate(expected)))
    assert keys(await read(database, limit=26)) == expected[:26]
    numbered = await database.fetch_all("SELECT id FROM events WHERE position IS NOT NULL")
    assert len(numbered) == 26


async def test_a_restored_store_repeats_events_rather_than_skip_any(database: Database) -> None:
    await store(database, an_event("job_a"), an_event("job_b"))
    seen = (await read(database))[-1].position

    async def restore(tx: Transaction) -> None:
        await tx.execute("UPDATE events SET position = NULL")
        await tx.execute("DELETE FROM event_positions")

    # The backup is older than the first listing.
    await database.transact(restore)
    await store(database, an_event("job_c"))
    assert {job for job, _ in keys(await read(database, seen))} == {"job_a", "job_b", "job_c"}


async def test_a_listing_without_events_writes_nothing(database: Database) -> None:
    assert await database.transact(event_listing._number_batch, "org_a", 10) == 0
    assert await read(database) == []
    assert await database.fetch_all("SELECT organization_id FROM event_positions") == []


async def test_positions_grow_although_the_clock_was_set_back(database: Database) -> None:
    await store(database, an_event("job_a"))
    await read(database)
    ahead = (now_ms() + DAY_MS) * 1_000

    async def move_ahead(tx: Transaction) -> None:
        await tx.execute("UPDATE event_positions SET last_position = :ahead", ahead=ahead)

    await database.transact(move_ahead)
    await store(database, an_event("job_b"))
    assert [event.position for event in await read(database, ahead)] == [ahead + 1]


async def test_a_cursor_older_than_deleted_events_continues_with_those_kept(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    old = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, old)
    organization_id = caller.organization_id
    (queued, _) = await list_events(harness.db, organization_id, after=0, limit=10)
    await prune(harness.db, now_ms() + 2 * DAY_MS, log_days=1, job_days=1)
    new = await harness.job(caller)
    kept = await list_events(harness.db, organization_id, after=queued.position, limit=10)
    assert keys(kept) == [(new, 1)]


async def test_an_event_ends_the_wait(database: Database) -> None:
    waiting = asyncio.create_task(wait_for_events(database, "org_a", after=0, limit=10, seconds=60))
    async with asyncio.timeout(30):
        while not database.changes.topics:  # noqa: ASYNC110 - subscriptions emit no signal
            await asyncio.sleep(0)
        await store(database, an_event("job_a"))
        assert keys(await waiting) == [("job_a", 1)]


async def test_concurrent_readers_see_every_event_of_concurrent_writers_once_and_in_order(
    database: Database, database_url: str
) -> None:
    jobs = [new_id("job") for _ in range(40)]
    expected = {(job, sequence) for job in jobs for sequence in range(1, 5)}
    chance = random.Random(19)
    numbers = count(1)

    async def write(db: Database, own: list[str]) -> None:
        async def record(tx: Transaction, event: JobEvent, pause_seconds: float) -> None:
            await record_events(tx, [event])
            if tx.engine == "postgresql":
                # So that transactions end in another order than they began.
                await tx.fetch_one("SELECT pg_sleep(:seconds)", seconds=pause_seconds)

        steps = [(job, sequence) for sequence in range(1, 5) for job in own]
        for job, sequence in steps:
            at = next(numbers) + chance.randrange(-20, 20)
            event = an_event(job, sequence, at_ms=max(at, 0))
            await db.transact(record, event, chance.random() / 100)

    async def follow(db: Database, limit: int) -> list[ListedEvent]:
        seen: list[ListedEvent] = []
        while len(seen) < len(expected):
            after = seen[-1].position if seen else 0
            seen += await wait_for_events(db, "org_a", after=after, limit=limit, seconds=60)
        return seen

    other = await open_unchecked(database_url, listen=False)
    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            readers = [
                group.create_task(follow(db, limit))
                for db, limit in ((database, 1), (database, 7), (other, 3), (other, 1_000))
            ]
            for number in range(8):
                group.create_task(write((database, other)[number % 2], jobs[number::8]))
    finally:
        await other.close()
    first, *rest = [reader.result() for reader in readers]
    assert all(seen == first for seen in rest)
    assert len(first) == len(expected)
    assert set(keys(first)) == expected
    for job in jobs:
        assert [sequence for job_id, sequence in keys(first) if job_id == job] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (event_listing._HAS_UNLISTED, "events_unlisted (organization_id=?)"),
        (event_listing._UNLISTED, "events_unlisted (organization_id=?)"),
        (event_listing._UNLISTED_OF_JOBS, "sqlite_autoindex_events_1 (job_id=?)"),
        (event_listing._PAGE, "events_listed (organization_id=? AND position>?)"),
    ],
)
def test_sqlite_reads_only_the_events_it_returns(
    sqlite_template: Path, sql: str, index: str
) -> None:
    statement = render("sqlite", sql)
    connection = sqlite3.connect(sqlite_template)
    explained = connection.execute(
        f"EXPLAIN QUERY PLAN {statement.sql}", ["[]"] * len(statement.names)
    )
    plan = [row[3] for row in explained]
    connection.close()
    assert plan[0] == f"SEARCH events USING INDEX {index}"
    assert not any("ORDER BY" in line for line in plan)
