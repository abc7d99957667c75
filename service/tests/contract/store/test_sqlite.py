"""Failures specific to SQLite: locks, a full disk, an invalid file, a kill during a write."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.store.database import StoreError, StoreFull, StoreUnavailable, Transaction
from agentjobs.store.opening import open_database
from agentjobs.store.sqlite import connection as sqlite_connection
from agentjobs.store.sqlite import writer
from tests.support.stores import INSERT, add, names, opened, process, read_line


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
def lock(path: Path) -> Iterator[sqlite3.Connection]:
    """Holds a write lock like a slow process."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


async def test_only_large_transactions_run_off_the_thread_of_the_event_loop(
    sqlite_url: str,
) -> None:
    async with opened(sqlite_url) as db:
        own = threading.get_ident()
        assert await db.transact(_thread) == own
        assert await db.transact_large(_thread) != own


async def test_a_large_transaction_keeps_its_place_among_others(sqlite_url: str) -> None:
    async with opened(sqlite_url) as db:
        await asyncio.gather(
            db.transact(add, "a"),
            db.transact(add, "b"),
            db.transact_large(_count_before, "c", 2),
            db.transact(_count_before, "d", 3),
            db.transact_large(_count_before, "e", 4),
        )
        assert await names(db) == ["a", "b", "c", "d", "e"]


async def test_changes_of_others_are_looked_for_only_while_somebody_listens(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    look = writer.SqliteWriter._detect_other_writers
    monkeypatch.setattr(
        writer.SqliteWriter, "_detect_other_writers", lambda own: (looks.append(own), look(own))
    )
    async with opened(sqlite_url) as db, opened(sqlite_url) as other:
        for name in ("a", "b"):
            with db.changes.listen("jobs") as signal:
                await other.transact(add, name)
                assert await signal.wait(10)
        # A commit of the silent one looks too; its timer would have looked more often.
        assert looks.count(other._writer) == 2  # type: ignore[attr-defined]  # of SQLite


async def _thread(_: Transaction) -> int:
    return threading.get_ident()


async def _count_before(tx: Transaction, name: str, expected: int) -> None:
    row = await tx.fetch_one("SELECT COUNT(*) AS number FROM organizations")
    assert row is not None
    assert row["number"] == expected
    await add(tx, name)


async def test_a_transaction_waits_for_a_locked_database(
    sqlite_url: str, lock: sqlite3.Connection
) -> None:
    async with opened(sqlite_url) as db:
        writing = [asyncio.create_task(db.transact(add, name)) for name in "ab"]
        done, _ = await asyncio.wait(writing, timeout=0.2)
        assert not done
        assert await names(db) == []

        lock.execute("COMMIT")

        await asyncio.gather(*writing)
        assert await names(db) == ["a", "b"]


async def test_a_database_that_stays_locked_is_unavailable_and_recovers(
    sqlite_url: str, lock: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_SECONDS", 0.1)
    async with opened(sqlite_url) as db:
        outcomes = await asyncio.gather(
            *(db.transact(add, name) for name in "abc"), return_exceptions=True
        )

        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
        assert "it is locked by another process" in str(outcomes[0])
        await db.ping()
        lock.execute("ROLLBACK")
        await db.transact(add, "d")
        assert await names(db) == ["d"]


async def test_a_full_disk_loses_no_data_and_is_reported(sqlite_url: str) -> None:
    async def limit_pages(tx: Transaction, most: int) -> None:
        await tx.execute(f"PRAGMA max_page_count = {most}")

    async def add_much(tx: Transaction) -> None:
        await tx.execute(INSERT, id="much" * 100_000)

    async with opened(sqlite_url) as db:
        await db.transact(add, "before")
        await db.transact(limit_pages, 1)

        outcomes = await asyncio.gather(
            db.transact(add_much), db.transact(add_much), return_exceptions=True
        )

        assert [type(outcome) for outcome in outcomes] == [StoreFull] * 2
        assert "is full; free some space there" in str(outcomes[0])
        assert await names(db) == ["before"]
        await db.transact(limit_pages, 1_000_000)
        await db.transact(add, "later")
        assert await names(db) == ["before", "later"]


async def test_if_sqlite_rolls_back_a_batch_all_its_callers_fail(sqlite_url: str) -> None:
    async def undo_everything(tx: Transaction) -> None:
        await tx.execute("ROLLBACK")

    async with opened(sqlite_url) as db:
        outcomes = await asyncio.gather(
            db.transact(add, "a"),
            db.transact(undo_everything),
            db.transact(add, "b"),
            return_exceptions=True,
        )

        committed = {"a", "b"} & {outcome for outcome in outcomes if isinstance(outcome, str)}
        assert isinstance(outcomes[0], StoreError)
        assert isinstance(outcomes[1], StoreError)
        assert set(await names(db)) == committed
        await db.transact(add, "later")
        assert "later" in await names(db)


async def test_a_file_that_is_not_a_database_is_named_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database at all" * 500)

    with pytest.raises(StoreUnavailable, match=r"notes\.txt.*not an SQLite database; restore"):
        await open_database(f"sqlite:///{path}", migrate=True)

    assert path.read_text() == "no database at all" * 500


async def test_a_path_that_cannot_be_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in ("file/below/x.db", "."):
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await open_database(f"sqlite:///{tmp_path}/{path}", migrate=True)


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new directory" / "x.db"
    db = await open_database(f"sqlite:///{path}", migrate=True)
    try:
        await db.transact(add, "a")
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
    finally:
        await db.close()


async def test_every_commit_is_flushed_to_the_disk(sqlite_url: str) -> None:
    async def settings(tx: Transaction) -> list[object]:
        pragmas = ("synchronous", "journal_mode", "foreign_keys")
        rows = [await tx.fetch_one(f"PRAGMA {name}") for name in pragmas]
        return [value for row in rows if row for value in dict(row).values()]

    async with opened(sqlite_url) as db:
        assert await db.transact(settings) == [2, "wal", 1]


async def test_a_caller_cancelled_after_its_work_started_is_committed(sqlite_url: str) -> None:
    started = asyncio.Event()

    async def begin(tx: Transaction) -> None:
        await add(tx, "a")
        started.set()

    async with opened(sqlite_url) as db:
        caller = asyncio.create_task(db.transact(begin))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

        await db.transact(add, "b")
        assert await names(db) == ["a", "b"]


async def test_a_caller_cancelled_before_its_work_starts_changes_nothing(
    sqlite_url: str, lock: sqlite3.Connection
) -> None:
    async with opened(sqlite_url) as db:
        caller = asyncio.create_task(db.transact(add, "a"))
        await asyncio.wait([caller], timeout=0.05)
        caller.cancel()
        await asyncio.wait([caller])

        lock.execute("COMMIT")
        await db.transact(add, "b")
        assert await names(db) == ["b"]


async def test_nothing_acknowledged_is_lost_to_a_kill(sqlite_url: str) -> None:
    for _ in range(3):
        async with process("write", sqlite_url) as writer:
            acknowledged = [await read_line(writer) for _ in range(200)]
            writer.kill()
            assert writer.stdout is not None
            # The last line may be incomplete, like its transaction.
            acknowledged += (await writer.stdout.read()).decode().rpartition("\n")[0].split()

        async with opened(sqlite_url) as db:
            assert set(acknowledged) <= set(await names(db))
            await db.transact(_forget_all)


async def test_two_processes_may_write_at_once(sqlite_url: str) -> None:
    async with process("write", sqlite_url) as writer, opened(sqlite_url) as db:
        await read_line(writer)
        for number in range(20):
            await db.transact(add, f"mine-{number}")
        assert {f"mine-{number}" for number in range(20)} <= set(await names(db))


async def _forget_all(tx: Transaction) -> None:
    await tx.execute("DELETE FROM organizations")


async def test_a_database_that_was_deleted_is_not_ready(sqlite_url: str, path: Path) -> None:
    async with opened(sqlite_url) as db:
        await db.ping()
        path.unlink()
        with pytest.raises(StoreUnavailable, match="deleted"):
            await db.ping()


async def test_an_unexpected_error_fails_one_batch_and_not_those_after_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sqlite_url) as database:

        class BrokenClock:
            @staticmethod
            def monotonic() -> float:
                raise OSError("no clock")

        with monkeypatch.context() as broken:
            broken.setattr(writer, "time", BrokenClock)
            with pytest.raises(StoreError, match="no clock"):
                await database.transact(add, "first")
        await database.transact(add, "second")
        assert await names(database) == ["second"]


async def test_a_subscriber_that_fails_does_not_stop_the_writer(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def announce(tx: Transaction, name: str) -> None:
        await add(tx, name)
        tx.announce("jobs")

    def fail(*_topics: str) -> None:
        raise RuntimeError("a defect")

    async with opened(sqlite_url) as database:
        with monkeypatch.context() as broken:
            broken.setattr(database.changes, "publish", fail)
            await database.transact(announce, "first")
        await database.transact(add, "second")
        assert await names(database) == ["first", "second"]
