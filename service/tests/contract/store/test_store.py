"""Transactions give the same guarantees on both engines."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from agentjobs.store.database import (
    Database,
    ForeignAwait,
    IntegrityError,
    NestedTransaction,
    StoreError,
    StoreUnavailable,
    Transaction,
    TransactionEnded,
)
from agentjobs.store.opening import open_database
from tests.support.stores import INSERT, add, names, opened

ORPHAN = """
    INSERT INTO api_keys (id, organization_id, name, hint, hash, scope, created_at)
    VALUES ('key', 'nobody', '', '', :hash, 'jobs', 0)
"""


class Refused(Exception):
    pass


async def add_and_refuse(tx: Transaction, name: str) -> None:
    await add(tx, name)
    raise Refused


async def test_a_transactions_writes_are_visible_when_it_returns(database: Database) -> None:
    assert await database.transact(add, "acme") == "acme"

    row = await database.fetch_one(
        "SELECT id, name, plan, created_at FROM organizations WHERE name = :name", name="acme"
    )

    assert row is not None
    assert dict(row) == {"id": "acme", "name": "acme", "plan": "free", "created_at": 0}


async def test_many_rows_go_in_with_one_call(database: Database) -> None:
    async def add_all(tx: Transaction, ids: list[str]) -> None:
        await tx.execute_many(INSERT, [{"id": each} for each in ids])

    await database.transact(add_all, ["a", "b", "c"])
    await database.transact(add_all, [])

    assert await names(database) == ["a", "b", "c"]


@pytest.mark.parametrize("begins_with", ["nothing", "read", "write"])
async def test_the_last_statement_commits_with_all_others(
    database: Database, begins_with: str
) -> None:
    async def work(tx: Transaction) -> None:
        if begins_with == "read":
            await tx.fetch_all("SELECT id FROM organizations")
        elif begins_with == "write":
            await add(tx, "first")
        await tx.execute_last(INSERT, id="last")
        with pytest.raises(TransactionEnded, match="last statement"):
            await add(tx, "later")

    await database.transact(work)

    assert await names(database) == (["first", "last"] if begins_with == "write" else ["last"])


@pytest.mark.parametrize("begins_with", ["nothing", "read", "write"])
async def test_a_last_statement_that_fails_undoes_all_others(
    database: Database, begins_with: str
) -> None:
    async def work(tx: Transaction) -> None:
        if begins_with == "read":
            await tx.fetch_all("SELECT id FROM organizations")
        elif begins_with == "write":
            await add(tx, "first")
        await tx.execute_last(ORPHAN, hash=b"1")

    with pytest.raises(IntegrityError):
        await database.transact(work)

    assert await names(database) == []
    await database.transact(add, "next")
    assert await names(database) == ["next"]


async def test_one_invalid_row_of_a_batch_fails_all(database: Database) -> None:
    async def add_twice(tx: Transaction) -> None:
        await tx.execute_many(INSERT, [{"id": "a"}, {"id": "b"}, {"id": "a"}])

    with pytest.raises(IntegrityError):
        await database.transact(add_twice)

    assert await names(database) == []


async def test_a_transaction_that_raises_is_rolled_back_and_raises_to_its_caller(
    database: Database,
) -> None:
    with pytest.raises(Refused):
        await database.transact(add_and_refuse, "acme")

    assert await names(database) == []


async def test_a_large_transaction_commits_or_is_rolled_back(database: Database) -> None:
    async def add_and_fail(tx: Transaction, name: str) -> None:
        await add(tx, name)
        raise LookupError(name)

    with database.changes.listen("large") as signal:

        async def add_and_announce(tx: Transaction, name: str) -> str:
            tx.announce("large")
            return await add(tx, name)

        assert await database.transact_large(add_and_announce, "a") == "a"
        assert await signal.wait(60)
    with pytest.raises(LookupError, match="b"):
        await database.transact_large(add_and_fail, "b")
    assert await names(database) == ["a"]


async def test_a_transaction_sees_its_own_writes_and_others_do_not(database: Database) -> None:
    seen_inside: list[int] = []

    async def write_and_look(tx: Transaction) -> None:
        await add(tx, "acme")
        seen_inside.append(len(await tx.fetch_all("SELECT 1 FROM organizations")))
        raise Refused

    with pytest.raises(Refused):
        await database.transact(write_and_look)

    assert seen_inside == [1]
    assert await names(database) == []


async def test_in_a_batch_only_failed_transactions_are_rolled_back(
    database: Database,
) -> None:
    works = [database.transact(add_and_refuse if n % 3 else add, f"o{n:02}") for n in range(40)]

    outcomes = await asyncio.gather(*works, return_exceptions=True)

    assert [isinstance(outcome, Refused) for outcome in outcomes] == [
        bool(n % 3) for n in range(40)
    ]
    assert await names(database) == [f"o{n:02}" for n in range(0, 40, 3)]


async def test_many_writers_lose_no_update(database: Database) -> None:
    await database.transact(add, "acme")

    async def increment(tx: Transaction) -> None:
        sql = "SELECT created_at FROM organizations /*postgresql FOR UPDATE */"
        row = await tx.fetch_one(sql)
        assert row is not None
        await tx.execute("UPDATE organizations SET created_at = :n", n=row["created_at"] + 1)

    await asyncio.gather(*(database.transact(increment) for _ in range(60)))

    row = await database.fetch_one("SELECT created_at FROM organizations")
    assert row is not None
    assert row["created_at"] == 60


async def test_execute_counts_the_rows_it_changed(database: Database) -> None:
    async def count(tx: Transaction) -> list[int]:
        inserted = [await tx.execute(INSERT, id=name) for name in ("a", "b", "c")]
        updated = await tx.execute("UPDATE organizations SET plan = 'pro' WHERE id < 'c'")
        missed = await tx.execute("UPDATE organizations SET plan = 'pro' WHERE id = 'z'")
        ignored = await tx.execute(INSERT + " ON CONFLICT DO NOTHING", id="a")
        deleted = await tx.execute("DELETE FROM organizations")
        return [*inserted, updated, missed, ignored, deleted]

    assert await database.transact(count) == [1, 1, 1, 2, 0, 0, 3]


async def test_a_statement_may_return_the_row_it_wrote(database: Database) -> None:
    async def insert(tx: Transaction) -> str:
        row = await tx.fetch_one(INSERT + " RETURNING plan", id="a")
        assert row is not None
        return str(row["plan"])

    assert await database.transact(insert) == "free"
    assert await names(database) == ["a"]


async def test_reading_one_row_of_many_leaves_nothing_open(database: Database) -> None:
    async def read_and_write(tx: Transaction) -> None:
        for name in ("a", "b", "c"):
            await add(tx, name)
        assert await tx.fetch_one("SELECT * FROM organizations ORDER BY id") is not None
        await add(tx, "d")

    await database.transact(read_and_write)

    assert await database.fetch_one("SELECT * FROM organizations ORDER BY id") is not None
    assert await names(database) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (INSERT, {"id": "acme"}),
        (INSERT, {"id": None}),
        (
            ORPHAN,
            {"hash": b"1"},
        ),
    ],
    ids=["unique", "not null", "foreign key"],
)
async def test_a_broken_constraint_is_an_integrity_error(
    database: Database, sql: str, parameters: dict[str, Any]
) -> None:
    await database.transact(add, "acme")

    async def break_it(tx: Transaction) -> None:
        await tx.execute(sql, **parameters)

    with pytest.raises(IntegrityError):
        await database.transact(break_it)

    assert await names(database) == ["acme"]


async def test_after_a_failed_statement_a_transaction_refuses_everything(
    database: Database,
) -> None:
    await database.transact(add, "acme")
    errors: list[type[BaseException]] = []

    async def continue_after_failure(tx: Transaction) -> str:
        await add(tx, "other")
        with pytest.raises(IntegrityError):
            await add(tx, "acme")
        for attempt in (tx.execute, tx.fetch_one, tx.fetch_all):
            try:
                await attempt("SELECT 1 AS one")
            except TransactionEnded as error:
                errors.append(type(error))
        return "as if nothing had happened"

    with pytest.raises(TransactionEnded):
        await database.transact(continue_after_failure)

    assert errors == [TransactionEnded] * 3
    assert await names(database) == ["acme"]


async def test_a_transaction_cannot_be_used_after_its_end(database: Database) -> None:
    transactions: list[Transaction] = []

    async def store_transaction(tx: Transaction) -> None:
        transactions.append(tx)

    await database.transact(store_transaction)

    with pytest.raises(TransactionEnded):
        await transactions[0].execute(INSERT, id="a")
    with pytest.raises(TransactionEnded):
        transactions[0].announce("jobs")
    assert await names(database) == []


async def _sleep_a_moment() -> None:
    await asyncio.sleep(0)


async def _wait_for_a_future() -> None:
    await asyncio.get_running_loop().create_future()


async def _use_a_thread() -> None:
    await asyncio.to_thread(time.monotonic)


async def _start_a_task() -> None:
    await asyncio.create_task(asyncio.sleep(0))


@pytest.mark.parametrize(
    "foreign", [_sleep_a_moment, _wait_for_a_future, _use_a_thread, _start_a_task]
)
async def test_a_transaction_that_awaits_anything_else_is_refused(
    database: Database, foreign: Callable[[], Awaitable[None]]
) -> None:
    async def wait_inside(tx: Transaction) -> None:
        await add(tx, "acme")
        await foreign()

    with pytest.raises(ForeignAwait):
        await database.transact(wait_inside)

    assert await names(database) == []
    assert await database.transact(add, "next") == "next"


async def test_a_foreign_await_is_refused_even_if_the_work_catches_it(database: Database) -> None:
    async def hide(tx: Transaction) -> None:
        await add(tx, "acme")
        while True:
            try:
                await asyncio.sleep(0)
            except StoreError:
                continue

    with pytest.raises(ForeignAwait):
        await database.transact(hide)

    assert await names(database) == []


async def test_the_database_cannot_be_used_inside_a_transaction(database: Database) -> None:
    async def nest(tx: Transaction) -> None:
        await database.transact(add, "inner")

    async def read_one(tx: Transaction) -> None:
        await database.fetch_one("SELECT 1 AS one")

    async def read_all(tx: Transaction) -> None:
        await database.fetch_all("SELECT 1 AS one")

    for work in (nest, read_one, read_all):
        with pytest.raises(NestedTransaction):
            await database.transact(work)

    assert await names(database) == []


async def test_a_task_started_in_a_transaction_may_use_the_database_afterwards(
    database: Database,
) -> None:
    started: list[asyncio.Task[str]] = []

    async def start(tx: Transaction) -> None:
        started.append(asyncio.create_task(database.transact(add, "later")))

    await database.transact(start)

    assert await started[0] == "later"


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT FROM WHERE", {}),
        ("SELECT * FROM no_such_table", {}),
        ("SELECT * FROM organizations WHERE id = :id", {}),
        ("SELECT * FROM organizations WHERE id IN (SELECT value FROM each(:ids))", {}),
        ("SELECT * FROM organizations WHERE created_at = :n", {"n": 2**63}),
        ("SELECT * FROM organizations WHERE name = :name", {"name": "\ud800"}),
    ],
    ids=["syntax", "table", "parameter", "list", "big", "surrogate"],
)
async def test_a_statement_that_cannot_run_is_a_store_error_everywhere(
    database: Database, sql: str, parameters: dict[str, Any]
) -> None:
    async def inside(tx: Transaction) -> None:
        await tx.fetch_one(sql, **parameters)

    with pytest.raises(StoreError):
        await database.transact(inside)
    with pytest.raises(StoreError):
        await database.fetch_one(sql, **parameters)
    with pytest.raises(StoreError):
        await database.fetch_all(sql, **parameters)
    assert await database.transact(add, "next") == "next"


async def test_a_cancelled_transaction_is_atomic_and_the_store_keeps_working(
    database: Database,
) -> None:
    callers = [
        asyncio.create_task(database.transact(_add_two, f"o{n:02}", f"p{n:02}")) for n in range(30)
    ]
    await database.transact(add, "witness")
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)

    await database.transact(add, "zz")
    stored_names = await names(database)
    assert {name[1:] for name in stored_names if name[0] == "o"} == {
        name[1:] for name in stored_names if name[0] == "p"
    }


async def _add_two(tx: Transaction, first: str, second: str) -> None:
    await add(tx, first)
    await add(tx, second)


async def test_the_clock_of_a_transaction_is_close_to_ours(database: Database) -> None:
    async def clock(tx: Transaction) -> int:
        return await tx.clock_ms()

    assert abs(await database.transact(clock) - time.time() * 1000) < 5_000


async def test_more_callers_than_connections_are_all_served(database: Database) -> None:
    reads = [database.fetch_all("SELECT name FROM organizations") for _ in range(50)]
    writes = [database.transact(add, f"o{n}") for n in range(50)]

    await asyncio.gather(*reads, *writes)

    assert len(await names(database)) == 50


async def test_nothing_can_be_written_outside_a_transaction(database: Database) -> None:
    for call in (database.fetch_one, database.fetch_all):
        with pytest.raises(StoreError):
            await call(INSERT + " RETURNING id", id="a")

    assert await names(database) == []


async def test_a_closed_database_is_unavailable(database: Database) -> None:
    await database.ping()
    await database.check_writable()
    await database.close()

    for call in (
        database.ping(),
        database.fetch_all("SELECT 1 AS one"),
        database.transact(add, "a"),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call


async def test_closing_finishes_running_transactions(database: Database, database_url: str) -> None:
    tasks = [asyncio.create_task(database.transact(add, f"o{n}")) for n in range(5)]
    await asyncio.sleep(0)
    await database.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    async with opened(database_url) as again:
        assert await names(again) == [outcome for outcome in outcomes if isinstance(outcome, str)]


def test_everything_is_the_same_on_uvloop(database_url: str) -> None:
    async def wait_inside(tx: Transaction) -> None:
        await asyncio.sleep(0)

    async def use() -> list[str]:
        async with opened(database_url) as db, opened(database_url) as other:
            with other.changes.listen("jobs") as signal:
                await asyncio.gather(*(db.transact(_add_and_announce, f"o{n}") for n in range(9)))
                assert await signal.wait(20)
            with pytest.raises(ForeignAwait):
                await db.transact(wait_inside)
            return await names(other)

    assert uvloop.run(use()) == [f"o{n}" for n in range(9)]


async def _add_and_announce(tx: Transaction, name: str) -> None:
    await add(tx, name)
    tx.announce("jobs")


@pytest.mark.parametrize("url", ["mysql://x/y", "agentjobs.db", "sqlite:", "", "sqlite:///"])
async def test_an_unknown_database_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        await open_database(url, migrate=True)
