"""Listeners learn of a change at its commit, other processes within a second."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from agentjobs.store.database import Database, Transaction
from agentjobs.store.postgresql import notifications, watched_topics
from tests.support.git_server import until
from tests.support.stores import add, opened, process, read_line

Notify = Callable[..., Coroutine[Any, Any, None]]

WITHIN_SECONDS = 1.0


class Refused(Exception):
    pass


async def announce(tx: Transaction, name: str, *topics: str) -> None:
    await add(tx, name)
    tx.announce(*topics)


async def invalidate(tx: Transaction, name: str, *topics: str) -> None:
    await add(tx, name)
    await tx.invalidate(*topics)


@pytest.fixture
async def other(database: Database, database_url: str) -> AsyncIterator[Database]:
    """The same store, opened a second time."""
    async with opened(database_url) as db:
        yield db


@pytest.mark.parametrize("notify", [announce, invalidate])
async def test_a_change_is_published_after_its_transaction_commits(
    database: Database, notify: Notify
) -> None:
    with database.changes.listen("jobs") as signal:
        await database.transact(notify, "a", "jobs")
        assert await signal.wait(20)


async def test_a_change_is_published_by_a_transaction_without_statements(
    database: Database,
) -> None:
    async def tell(tx: Transaction) -> None:
        tx.announce("jobs")

    with database.changes.listen("jobs") as signal:
        await database.transact(tell)
        assert await signal.wait(20)


@pytest.mark.parametrize("notify", [announce, invalidate])
async def test_changes_that_were_rolled_back_are_never_published(
    database: Database, other: Database, notify: Notify
) -> None:
    async def tell_and_refuse(tx: Transaction) -> None:
        await notify(tx, "a", "jobs")
        raise Refused

    with database.changes.listen("jobs") as local, other.changes.listen("jobs") as remote:
        with pytest.raises(Refused):
            await database.transact(tell_and_refuse)
        assert not await local.wait(0)
        assert not await remote.wait(0.3)


@pytest.mark.parametrize("notify", [announce, invalidate])
async def test_another_connection_is_notified_within_a_second(
    database: Database, other: Database, notify: Notify
) -> None:
    for name in ("first", "second", "third"):
        with other.changes.listen("keys") as signal:
            await database.transact(notify, name, "keys")
            assert await signal.wait(WITHIN_SECONDS)
        row = await other.fetch_one("SELECT id FROM organizations WHERE id = :id", id=name)
        assert row is not None


async def test_caches_are_cleared_before_the_caller_continues(database: Database) -> None:
    cache = {"key": "old"}
    database.changes.on("keys", cache.clear)

    await database.transact(invalidate, "a", "keys")

    assert cache == {}


async def test_another_process_is_notified_within_a_second(
    database: Database, database_url: str
) -> None:
    async def change(tx: Transaction) -> None:
        await invalidate(tx, "a", "keys")
        tx.announce("jobs")

    async with process("listen", database_url) as started:
        assert await read_line(started) == "ready"
        await database.transact(change)
        changed = {await read_line(started, WITHIN_SECONDS) for _ in range(2)}

    assert changed == {"changed keys", "changed jobs"}


async def test_changes_of_a_short_command_reach_other_processes(
    database: Database, database_url: str
) -> None:
    with database.changes.listen("keys") as keys, database.changes.listen("jobs") as jobs:
        async with process("change", database_url) as started:
            assert await started.wait() == 0
        assert await keys.wait(WITHIN_SECONDS)
        assert await jobs.wait(WITHIN_SECONDS)


async def test_a_process_is_not_notified_of_its_own_changes(
    database: Database, other: Database
) -> None:
    invalidations: list[str] = []
    database.changes.on("keys", lambda: invalidations.append("keys"))

    with other.changes.listen("keys") as signal:
        await database.transact(announce, "a", "keys")
        await database.transact(invalidate, "b", "keys")
        assert await signal.wait(WITHIN_SECONDS)

    with database.changes.listen("answer") as reply:
        await other.transact(announce, "c", "answer")
        assert await reply.wait(WITHIN_SECONDS)
    # On SQLite, a write by another process notifies every topic.
    assert invalidations == ["keys"] * {"sqlite": 3, "postgresql": 2}[database.engine]


async def test_postgresql_is_notified_seldom_and_of_everything(postgres_url: str) -> None:
    notices: list[str] = []
    all_told = asyncio.Event()

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        notices.append(str(payload))
        if len(_topics(notices)) == 300:
            all_told.set()

    listener = await asyncpg.connect(postgres_url)
    await listener.add_listener("agentjobs", hear)
    async with opened(postgres_url) as db:
        await asyncio.gather(*(db.transact(announce, f"o{n}", f"job:{n}") for n in range(300)))
        async with asyncio.timeout(30):
            await all_told.wait()
    await listener.close()
    assert _topics(notices) == {f"job:{n}" for n in range(300)}
    assert len(notices) < 100


def _topics(notices: list[str]) -> set[str]:
    return {topic for notice in notices for topic in notice.split()[1:]}


async def test_topics_that_can_wait_arrive_soon_in_a_fleet_and_urgent_ones_at_once(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as writer, opened(postgres_url) as other:
        writer.changes.processes = 50
        with (
            writer.changes.listen("jobs", takes_work=True),
            other.changes.listen("log:1") as watched,
            other.changes.listen("jobs") as work,
            other.changes.listen("cancel") as cancel,
        ):
            await writer.transact(announce, "a", "log:1", "jobs")
            assert not await cancel.wait(0)
            assert await watched.wait(WITHIN_SECONDS)
            assert await work.wait(WITHIN_SECONDS)
            await writer.transact(announce, "b", "cancel")
            assert await cancel.wait(WITHIN_SECONDS)


async def test_other_processes_hear_only_of_jobs_that_they_watch(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_topics, "_UNKNOWN_SECONDS", 0)
    notices: list[str] = []
    listener = await asyncpg.connect(postgres_url)
    await listener.add_listener("agentjobs", lambda *payload: notices.append(str(payload[-1])))
    async with opened(postgres_url) as writer, opened(postgres_url) as other:
        await writer.transact(announce, "a", "job:1", "job:2")
        # The writer has withheld both: it sends the one that is asked for.
        with other.changes.listen("job:1") as watched:
            assert await watched.wait(WITHIN_SECONDS)
            await writer.transact(announce, "b", "job:1", "job:2")
            assert await watched.wait(WITHIN_SECONDS)
    await listener.close()
    assert _topics(notices) == {"?job:1", "job:1"}


async def test_a_process_asks_again_although_it_hears_of_others_all_the_time(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(notifications, "_IDLE_HEARTBEAT_SECONDS", 600)
    asked: list[str] = []
    asked_again = asyncio.Event()

    def hear(*payload: object) -> None:
        asked.extend(topic for topic in str(payload[-1]).split() if topic == "?job:1")
        if len(asked) == 3:
            asked_again.set()

    listener = await asyncpg.connect(postgres_url)
    await listener.add_listener("agentjobs", hear)
    async with opened(postgres_url) as db:
        with db.changes.listen("job:1"):
            async with asyncio.timeout(WITHIN_SECONDS):
                await asked_again.wait()
    await listener.close()


async def test_work_that_this_process_takes_is_announced_when_it_passes_it_on(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as writer, opened(postgres_url) as other:
        stop = writer.changes.on("deliveries", lambda: None, takes_work=True, passes_on=True)
        with other.changes.listen("deliveries") as work, other.changes.listen("cancel") as cancel:
            await writer.transact(announce, "a", "deliveries")
            await writer.transact(announce, "b", "cancel")
            assert await cancel.wait(WITHIN_SECONDS)
            assert not await work.wait(0)
            writer.changes.pass_on("deliveries")
            assert await work.wait(WITHIN_SECONDS)
            stop()
            await writer.transact(announce, "c", "deliveries")
            assert await work.wait(WITHIN_SECONDS)


async def test_work_that_no_process_can_take_is_passed_on_once(postgres_url: str) -> None:
    notices: list[str] = []
    listener = await asyncpg.connect(postgres_url)
    await listener.add_listener("agentjobs", lambda *payload: notices.append(str(payload[-1])))
    async with opened(postgres_url) as writer, opened(postgres_url) as other:
        for changes in (writer.changes, other.changes):
            pass_on = functools.partial(changes.pass_on, "deliveries")
            changes.on("deliveries", pass_on, takes_work=True, passes_on=True)
        with other.changes.listen("deliveries") as work, writer.changes.listen("cancel") as cancel:
            await writer.transact(announce, "a", "deliveries")
            assert await work.wait(WITHIN_SECONDS)
            await other.transact(announce, "b", "cancel")
            assert await cancel.wait(WITHIN_SECONDS)
        # A database that is closed sends again what was not confirmed yet.
        await until(lambda: "cancel" in _topics(notices))
        assert [notice.split()[1:] for notice in notices] == [["deliveries"], ["cancel"]]
    await listener.close()


async def test_caches_of_an_idle_process_are_bypassed_until_the_server_responds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_IDLE_HEARTBEAT_SECONDS", 600)
    async with opened(postgres_url) as db:
        await until(db.changes.may_use_caches)
        db.notifications._heard_at -= 60
        assert not db.changes.may_use_caches()
        await until(db.changes.may_use_caches)


async def test_only_a_process_that_uses_caches_pings_all_the_time(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(notifications, "_IDLE_HEARTBEAT_SECONDS", 600)
    pings, pinged = 0, asyncio.Event()
    execute = asyncpg.Connection.execute

    async def count(connection: Any, query: str, *args: Any, **options: Any) -> Any:
        nonlocal pings
        if query == "SELECT 1":
            pings += 1
            pinged.set()
        return await execute(connection, query, *args, **options)

    monkeypatch.setattr(asyncpg.Connection, "execute", count)
    async with opened(postgres_url) as db, opened(postgres_url) as other:
        # The first ones are sent when it starts to listen.
        await db.transact(announce, "a", "jobs")
        with other.changes.listen("jobs") as signal:
            await other.transact(announce, "b", "jobs")
            assert await signal.wait(WITHIN_SECONDS)
        assert pings <= 2
        async with asyncio.timeout(WITHIN_SECONDS):
            while pings < 10:
                # Soon after a ping, the first use only counts for the next one.
                db.changes.may_use_caches()
                pinged.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(pinged.wait(), 0.5)
