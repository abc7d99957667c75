"""Failures specific to PostgreSQL: broken connections and server restarts."""

import asyncio
import functools
import os
import signal as signals
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from agentjobs.store.database import Row, StoreError, StoreUnavailable, Transaction
from agentjobs.store.opening import open_database
from agentjobs.store.postgresql import database, pool
from agentjobs.store.postgresql.connection import connect
from agentjobs.store.postgresql.database import PostgresqlDatabase
from tests.support.postgres import PostgresCluster
from tests.support.stores import INSERT, add, names, opened, until

CutOff = Callable[[], Awaitable[None]]


@pytest.fixture
async def cut_off(postgres_url: str) -> AsyncIterator[CutOff]:
    """Terminates every other connection to the database."""
    operator = await asyncpg.connect(postgres_url)

    async def cut() -> None:
        await operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    yield cut
    await operator.close()


async def test_an_unreachable_server_is_named_without_its_password() -> None:
    url = "postgresql://agentjobs:very-secret@127.0.0.1:9/store"

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9/store") as raised:
        await open_database(url, migrate=True)

    assert "very-secret" not in str(raised.value)


@pytest.mark.parametrize("address", ["127.0.0.1:notaport", "127.0.0.1:99999999", "[::1"])
async def test_an_invalid_host_or_port_is_unavailable(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await open_database(f"postgresql://{address}/store", migrate=True)


@pytest.mark.parametrize("password", ["hu/sh", "hu#sh", "hu?sh", "12/hush", "hu@sh", "hu?sh=hush"])
async def test_an_unencoded_password_is_reported_and_not_shown(password: str) -> None:
    with pytest.raises(StoreUnavailable, match="percent-encode the password") as raised:
        await open_database(f"postgresql://me:{password}@127.0.0.1:9/store", migrate=True)

    assert not {"hu", "sh", "12/"} & {str(raised.value)[n : n + 2] for n in range(200)}


async def test_a_database_that_does_not_exist_is_named(postgres_cluster: PostgresCluster) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await open_database(postgres_cluster.url("nowhere"), migrate=True)


async def test_the_error_of_a_first_statement_keeps_its_cause(
    postgres_url: str,
) -> None:
    """Failures of jobs are traced back to their first cause, so a chain must have an end."""

    async def read(tx: Transaction) -> None:
        await tx.fetch_one("SELECT 1 / 0 AS nothing")

    db = await PostgresqlDatabase.open(postgres_url, listen=False)
    with pytest.raises(StoreError) as refused:
        await db.transact(read)
    assert isinstance(refused.value.__cause__, asyncpg.DivisionByZeroError)

    await db.close()
    with pytest.raises(StoreUnavailable) as closed:
        await db.transact(add, "a")
    assert closed.value.__cause__ is None


async def test_a_lost_notification_connection_reconnects_and_publishes_everything(
    postgres_url: str, cut_off: CutOff
) -> None:
    async with opened(postgres_url) as db, opened(postgres_url) as other:
        was_live: list[bool] = []
        db.changes.on("keys", lambda: was_live.append(db.changes.live))

        with db.changes.listen("keys") as signal:
            await cut_off()
            assert await signal.wait(10)
            await until(lambda: db.changes.live and other.changes.live)
            await signal.wait(0)
            await other.transact(_invalidate_keys)
            assert await signal.wait(20)

        # The first notification is part of reconnecting, while caches are still bypassed.
        assert was_live == [False, True]


async def test_caches_are_bypassed_while_the_connection_is_silent(
    postgres_url: str,
) -> None:
    db = await PostgresqlDatabase.open(postgres_url)
    listener = db.notifications._connection
    assert listener is not None
    backend = listener.get_server_pid()
    async with opened(postgres_url) as other:
        with db.changes.listen("keys") as signal:
            os.kill(backend, signals.SIGSTOP)
            try:
                await until(lambda: not db.changes.may_use_caches())
                await other.transact(_invalidate_keys)
            finally:
                os.kill(backend, signals.SIGCONT)
            assert await signal.wait(30)
            await until(db.changes.may_use_caches)
        # The connection was only slow, so it is still in use.
        assert db.notifications._connection is listener
    await db.close()


async def test_connections_that_died_while_idle_are_replaced(
    postgres_url: str, cut_off: CutOff
) -> None:
    async with opened(postgres_url) as db:
        await asyncio.gather(*(db.transact(add, f"o{n}") for n in range(20)))

        await cut_off()

        await asyncio.gather(
            *(db.transact(add, f"p{n}") for n in range(20)), *(names(db) for _ in range(20))
        )
        assert len(await names(db)) == 40


async def test_a_connection_lost_inside_a_transaction_undoes_it(postgres_url: str) -> None:
    async def die(tx: Transaction) -> None:
        await add(tx, "a")
        await tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async with opened(postgres_url) as db:
        with pytest.raises(StoreUnavailable):
            await db.transact(die)

        await db.transact(add, "b")
        assert await names(db) == ["b"]


async def test_reads_and_a_last_statement_take_one_round_trip_each(postgres_url: str) -> None:
    db = await PostgresqlDatabase.open(postgres_url, listen=False)
    await db.ping()
    ((connection, _),) = db._pool._idle
    sent: list[str] = []
    connection.add_query_logger(lambda query: sent.append(query.query.split()[0]))
    await db.transact(_read_and_write_last, "a")
    await until(lambda: "INSERT" in sent)
    assert sent == ["SELECT", "INSERT"]
    assert await names(db) == ["a"]
    await db.close()


async def _read_and_write(tx: Transaction, name: str) -> None:
    await tx.fetch_all("SELECT id FROM organizations")
    tx.announce(name)
    await add(tx, name)


async def _read_and_write_last(tx: Transaction, name: str) -> None:
    await tx.fetch_all("SELECT id FROM organizations")
    tx.announce(name)
    await tx.execute_last(INSERT, id=name)


@pytest.mark.parametrize("work", [_read_and_write, _read_and_write_last])
async def test_a_transaction_can_be_cancelled_at_any_moment(
    postgres_url: str, work: Callable[[Transaction, str], Coroutine[Any, Any, None]]
) -> None:
    announced: set[str] = set()
    db = await PostgresqlDatabase.open(postgres_url, listen=False, pool_size=1)
    async with opened(postgres_url) as other:
        for moment in range(40):
            name = f"o{moment:02}"
            db.changes.on(name, functools.partial(announced.add, name))
            caller = asyncio.create_task(db.transact(work, name))
            for _ in range(2 * moment):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.wait({caller})
            # The only connection is neither in use nor in a transaction.
            async with asyncio.timeout(30):
                await db.transact(add, f"p{moment:02}")
            assert f"p{moment:02}" in await names(other)
        assert {each for each in await names(other) if each.startswith("o")} <= announced
    await db.close()


async def test_transactions_write_to_a_database_that_is_read_only_by_default(
    postgres_url: str,
) -> None:
    operator = await asyncpg.connect(postgres_url)
    alter = f'ALTER DATABASE "{await operator.fetchval("SELECT current_database()")}"'
    await operator.execute(f"{alter} SET default_transaction_read_only = on")
    try:
        db = await PostgresqlDatabase.open(postgres_url, listen=False)
        await db.transact(add, "a")
        await db.transact(_read_and_write_last, "b")
        assert await names(db) == ["a", "b"]
        await db.close()
    finally:
        await operator.execute(f"{alter} RESET default_transaction_read_only")
        await operator.close()


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR SHARE"])
async def test_a_lock_lasts_until_the_transaction_ends(postgres_url: str, lock: str) -> None:
    async def lock_row(tx: Transaction) -> list[Row]:
        await tx.fetch_all(f"SELECT id FROM organizations {lock}")
        return await tx.fetch_all("SELECT 1 FROM pg_locks WHERE mode = 'RowShareLock'")

    async with opened(postgres_url) as db:
        await db.transact(add, "a")
        assert await db.transact(lock_row) != []


@pytest.mark.parametrize("code", ["40P01", "53200", "57014"])
async def test_retryable_errors_are_unavailable(postgres_url: str, code: str) -> None:
    """Covers a deadlock, a lack of memory and a cancelled query."""

    async def fail(tx: Transaction) -> None:
        await tx.execute(f"DO $do$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $do$")

    async with opened(postgres_url) as db:
        with pytest.raises(StoreUnavailable, match="temporarily unavailable"):
            await db.transact(fail)
        await db.transact(add, "later")


@pytest.mark.parametrize("code", ["0A000", "25006"])
async def test_a_connection_to_a_server_that_became_a_standby_is_dropped(
    postgres_url: str, code: str
) -> None:
    async def fail(tx: Transaction) -> None:
        await tx.execute(f"DO $do$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $do$")

    db = await PostgresqlDatabase.open(postgres_url, listen=False)
    await db.ping()
    assert len(db._pool._idle) == 1
    with pytest.raises(StoreUnavailable, match="temporarily unavailable"):
        await db.transact(fail)
    assert len(db._pool._idle) == 0
    await db.transact(add, "later")
    await db.close()


async def test_a_restarted_server_is_reconnected(
    postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    async with opened(postgres_url) as db:
        await asyncio.gather(*(db.transact(add, f"o{n}") for n in range(5)))

        postgres_cluster.stop()
        await until(lambda: not db.changes.live)
        for call in (db.transact(add, "lost"), db.ping(), names(db)):
            with pytest.raises(StoreUnavailable):
                await call

        with db.changes.listen("keys") as signal:
            postgres_cluster.start()
            assert await signal.wait(15)
        await until(lambda: db.changes.live)
        await db.transact(add, "found")
        assert await names(db) == ["found", *(f"o{n}" for n in range(5))]


async def test_announcements_during_an_outage_are_sent_later(
    postgres_url: str, cut_off: CutOff
) -> None:
    async with opened(postgres_url) as local, opened(postgres_url) as remote:
        with remote.changes.listen("jobs") as signal:
            await cut_off()
            await until(lambda: not local.changes.live)
            await local.transact(_announce_jobs)
            await until(lambda: local.changes.live and remote.changes.live)
            assert await signal.wait(20)


async def test_a_cancelled_transaction_is_undone_and_leaves_no_lock(postgres_url: str) -> None:
    async def take_long(tx: Transaction) -> None:
        await add(tx, "a")
        await tx.execute("SELECT pg_sleep(60)")

    async with opened(postgres_url) as db:
        for _ in range(3):
            caller = asyncio.create_task(db.transact(take_long))
            while not await db.fetch_all(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
                "AND datname = current_database()"
            ):
                assert not caller.done()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller

        await db.transact(add, "a")
        assert await names(db) == ["a"]


async def test_a_statement_without_a_response_is_aborted(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_long(tx: Transaction) -> None:
        await add(tx, "a")
        await tx.execute("SELECT pg_sleep(60)")

    async with opened(postgres_url) as db:
        with monkeypatch.context() as shortened:
            shortened.setattr(pool, "MAX_USE_SECONDS", 0.2)
            shortened.setattr(database, "ACQUIRE_SECONDS", 0.1)
            with pytest.raises(StoreUnavailable):
                await db.transact(take_long)
            with pytest.raises(StoreUnavailable):
                await db.fetch_all("SELECT pg_sleep(60)")

        await db.transact(add, "a")
        assert await names(db) == ["a"]


async def test_callers_that_stop_waiting_do_not_leak_connections(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as db:
        callers = [asyncio.create_task(db.transact(add, f"o{n}")) for n in range(40)]
        await asyncio.sleep(0)
        for caller in callers[::2]:
            caller.cancel()
        await asyncio.wait(callers)

        await asyncio.gather(*(db.transact(add, f"p{n}") for n in range(40)))
        stored_names = await names(db)
        assert {f"p{n}" for n in range(40)} <= set(stored_names)
        assert {f"o{n}" for n in range(1, 40, 2)} <= set(stored_names)


async def test_closing_finishes_running_calls_and_refuses_waiting_ones(postgres_url: str) -> None:
    db = await PostgresqlDatabase.open(postgres_url)
    operator = await asyncpg.connect(postgres_url)
    await operator.execute("SELECT pg_advisory_lock(1)")
    callers = [asyncio.create_task(db.transact(_wait_for_lock)) for _ in range(12)]
    while await operator.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 10:
        assert not any(caller.done() for caller in callers)
    closing = asyncio.create_task(db.close())
    await asyncio.sleep(0)
    await operator.execute("SELECT pg_advisory_unlock(1)")
    await closing

    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert outcomes[:10] == [None] * 10
    assert [str(outcome) for outcome in outcomes[10:]] == ["the database is closed"] * 2
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[10:])
    await operator.close()


async def test_connections_that_are_not_used_are_closed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_IDLE_SECONDS", 0.2)
    operator = await asyncpg.connect(postgres_url)
    db = await PostgresqlDatabase.open(postgres_url, listen=False)
    await operator.execute("SELECT pg_advisory_lock(1)")
    callers = [asyncio.create_task(db.transact(_wait_for_lock)) for _ in range(5)]
    while await _connections(operator) < 5:
        assert not any(caller.done() for caller in callers)
    await operator.execute("SELECT pg_advisory_unlock(1)")
    await asyncio.gather(*callers)

    # One of them stays in use.
    while await _connections(operator) > 1:
        await db.ping()
    while await _connections(operator):
        pass
    await db.ping()
    await db.close()
    await operator.close()


async def test_a_small_pool_shares_a_connection_unless_it_is_busy(postgres_url: str) -> None:
    operator = await asyncpg.connect(postgres_url)
    db = await PostgresqlDatabase.open(postgres_url, listen=False, pool_size=2)
    await db.ping()
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(db.transact(add, f"o{number}"))
    assert len(await names(db)) == 50

    slow = asyncio.create_task(db.fetch_all("SELECT pg_sleep(60)"))
    while not await operator.fetchval(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        " AND datname = current_database()"
    ):
        assert not slow.done()
    await db.ping()
    assert await _connections(operator) == 2
    slow.cancel()
    await asyncio.wait({slow})
    await db.close()
    await operator.close()


async def test_callers_share_a_connection_unless_they_wait_often(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_GROW_SECONDS", 600)
    operator = await asyncpg.connect(postgres_url)
    db = await PostgresqlDatabase.open(postgres_url, listen=False)
    await db.ping()
    await asyncio.gather(*(db.ping() for _ in range(3)))
    assert await _connections(operator) == 1
    while await _connections(operator) == 1:
        await asyncio.gather(*(db.ping() for _ in range(20)))
    await db.close()
    await operator.close()


async def test_a_small_pool_in_a_large_fleet_waits_longer_before_it_grows(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_MAX_GROW_SECONDS", 600)
    operator = await asyncpg.connect(postgres_url)
    db = await PostgresqlDatabase.open(postgres_url, listen=False, pool_size=2)
    db.changes.processes = 1_000_000
    await db.ping()
    await asyncio.gather(db.fetch_all("SELECT pg_sleep(0.2)"), db.ping(), db.ping())
    assert await _connections(operator) == 1
    await db.close()
    await operator.close()


async def test_a_caller_that_stops_waiting_for_a_connection_leaves_it_to_others(
    postgres_url: str,
) -> None:
    db = await PostgresqlDatabase.open(postgres_url, listen=False, pool_size=2)
    for _ in range(20):
        callers = [asyncio.create_task(db.ping()) for _ in range(3)]
        await asyncio.sleep(0)
        for caller in callers[1:]:
            caller.cancel()
        await asyncio.wait(callers)
    await asyncio.gather(*(db.ping() for _ in range(10)))
    await db.close()


async def test_a_connection_to_a_machine_that_disappeared_ends_soon(postgres_url: str) -> None:
    connection = await connect(postgres_url)
    peer = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5_000
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    await connection.close()


async def _wait_for_lock(tx: Transaction) -> None:
    await tx.execute("SELECT pg_advisory_xact_lock_shared(1)")


async def _connections(operator: "asyncpg.Connection[asyncpg.Record]") -> int:
    count: int = await operator.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'agentjobs'"
    )
    return count


async def _invalidate_keys(tx: Transaction) -> None:
    await tx.invalidate("keys")


async def _announce_jobs(tx: Transaction) -> None:
    tx.announce("jobs")


async def test_statements_are_planned_for_index_reads(postgres_url: str) -> None:
    connection = await connect(postgres_url)
    try:
        assert await connection.fetchval("SHOW random_page_cost") == "1.1"
        assert await connection.fetchval("SHOW jit") == "off"
    finally:
        await connection.close()
