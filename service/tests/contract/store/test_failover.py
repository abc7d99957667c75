"""A standby takes over from its primary, with real PostgreSQL servers."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.store.database import StoreUnavailable, Transaction
from agentjobs.store.opening import open_database, open_unchecked
from tests.support.replication import ReplicatedPostgres, replicated_postgres
from tests.support.stores import INSERT, add, names, until


@pytest.fixture
def servers(postgres_files: Path, postgres_template: str) -> Iterator[ReplicatedPostgres]:
    with replicated_postgres(postgres_files, postgres_template) as servers:
        yield servers


@pytest.mark.parametrize("options", ["", "?target_session_attrs=read-write"])
async def test_a_promoted_standby_is_found_under_load_and_nothing_acknowledged_is_lost(
    servers: ReplicatedPostgres, options: str
) -> None:
    url = servers.url(options)
    db = await open_database(url, migrate=False)
    other = await open_database(url, migrate=False)
    acknowledged: list[str] = []
    numbers = itertools.count()

    async def write() -> None:
        while True:
            try:
                acknowledged.append(await db.transact(add, f"o{next(numbers)}"))
            except StoreUnavailable:
                await asyncio.sleep(0.01)

    writers = [asyncio.create_task(write()) for _ in range(8)]
    try:
        await until(lambda: len(acknowledged) >= 100)
        await asyncio.to_thread(servers.fail_over)
        before = len(acknowledged)
        await until(lambda: len(acknowledged) >= before + 100)
        await until(lambda: db.changes.live and other.changes.live)
        with other.changes.listen("keys") as signal:
            await db.transact(_invalidate_keys)
            assert await signal.wait(30)
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.wait(writers)
    assert set(acknowledged) <= set(await names(db))
    await other.close()
    await db.close()


async def test_a_standby_is_used_only_on_request_and_refuses_writes_until_it_is_promoted(
    servers: ReplicatedPostgres,
) -> None:
    with pytest.raises(StoreUnavailable, match="the server is a standby"):
        await open_database(servers.standby.url(servers.database), migrate=False)

    url = f"{servers.standby.url(servers.database)}?target_session_attrs=any"
    db = await open_unchecked(url, listen=False)
    assert await names(db) == []

    with pytest.raises(StoreUnavailable):
        await db.transact(add, "too-early")
    with pytest.raises(StoreUnavailable):
        await db.transact(_read_and_add, "too-early")
    await db.ping()
    with pytest.raises(StoreUnavailable):
        await db.check_writable()
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentjobs'"
    await until(lambda: servers.standby.sql(count).strip() == "0")

    await asyncio.to_thread(servers.fail_over)
    await db.check_writable()
    await db.transact(add, "later")
    assert await names(db) == ["later"]
    await db.close()


async def test_a_host_that_does_not_answer_does_not_hide_the_next_one(postgres_url: str) -> None:
    async def ignore(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    silent = asyncio.Event()
    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = postgres_url.replace("@", f"@127.0.0.1:{port},")
    db = await open_database(url, migrate=False)
    await db.transact(add, "a")
    await db.close()
    silent.set()
    server.close()


async def _read_and_add(tx: Transaction, name: str) -> None:
    await tx.fetch_all("SELECT id FROM organizations")
    await tx.execute_last(INSERT, id=name)


async def _invalidate_keys(tx: Transaction) -> None:
    await tx.invalidate("keys")
