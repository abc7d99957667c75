"""The one connection that writes to SQLite: transactions that waited together share a commit.

Statements run on the event loop's thread; what really waits, for the disk or for the lock of
another process, is left to a thread. (With the statements in that thread too, Python's threads
fight for the interpreter at each of them, and a busy loop starves the writer.)
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentjobs.store.changes import EVERYTHING, Changes
from agentjobs.store.database import StoreError, StoreUnavailable
from agentjobs.store.sqlite.connection import begin_patiently, is_busy, translate
from agentjobs.store.sqlite.transaction import SqliteTransaction, run_to_its_end
from agentjobs.store.transactions import current

WATCH_SECONDS = 0.1
_BATCH_SECONDS = 0.005
"""How long one batch may keep the event loop from everybody else."""
_UNKNOWN_VERSION = -1

Work = Callable[[SqliteTransaction], Coroutine[Any, Any, Any]]
Outcome = Callable[[Exception | None], None]


@dataclass(slots=True)
class _Asked:
    """A transaction from the moment it was asked for until its caller is told."""

    work: Work
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    topics: Iterable[str] = ()


class SqliteWriter:
    """One batch at a time: begin, run those that wait, commit, tell their callers."""

    def __init__(self, connection: sqlite3.Connection, path: Path, changes: Changes) -> None:
        self._connection = connection
        self._path = path
        self._changes = changes
        self._loop = asyncio.get_running_loop()
        self._asked: deque[_Asked] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = _WaitingThread(self._loop)
        # Unknown while another process holds the file: then the first look counts as a change.
        self._seen_version = _UNKNOWN_VERSION
        with contextlib.suppress(sqlite3.Error):
            self._seen_version = self._data_version()
        self._watching = self._loop.call_later(WATCH_SECONDS, self._watch)

    def submit(self, work: Work) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._asked.append(_Asked(work, future))
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: what else is asked for in this turn of the loop joins the batch.
            self._loop.call_soon(self._begin)
        return future

    async def stop(self) -> None:
        """Finish what was submitted and close the connection."""
        await self._idle.wait()
        self._watching.cancel()
        await asyncio.to_thread(self._thread.stop)
        await asyncio.to_thread(self._connection.close)

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                self._thread.run(lambda: begin_patiently(self._connection), self._begun)
            else:
                self._begun(error)
        else:
            self._begun(None)

    def _begun(self, error: Exception | None) -> None:
        if error is not None:
            refused = list(self._asked)
            self._asked.clear()
            self._end(refused, error)
            return
        self._look_for_others()
        changes_before = self._connection.total_changes
        batch: list[_Asked] = []
        try:
            self._run_batch(batch)
        except sqlite3.Error as lost:
            self._end(batch, lost)
            return
        if all(one.error for one in batch):
            self._end_at_once(batch, "ROLLBACK")
        elif self._connection.total_changes == changes_before:
            # Nothing to write, nothing to wait for.
            self._end_at_once(batch, "COMMIT")
        else:
            self._thread.run(
                lambda: self._connection.execute("COMMIT"), lambda error: self._end(batch, error)
            )

    def _run_batch(self, batch: list[_Asked]) -> None:
        until = time.monotonic() + _BATCH_SECONDS
        while self._asked and (not batch or time.monotonic() < until):
            one = self._asked.popleft()
            if not one.future.cancelled():
                batch.append(one)
                self._run_one(one)

    def _run_one(self, one: _Asked) -> None:
        """In a savepoint, so that one that fails takes nothing of the others with it."""
        self._connection.execute("SAVEPOINT one")
        tx = SqliteTransaction(self._connection, self._path)
        outer = current.set(tx)
        try:
            one.result = run_to_its_end(one.work(tx))
            tx.check()
            one.topics = tx.topics
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            one.error = error
            self._connection.execute("ROLLBACK TO one")
        finally:
            tx.end()
            current.reset(outer)
        self._connection.execute("RELEASE one")

    def _end_at_once(self, batch: list[_Asked], statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._end(batch, error)
        else:
            self._end(batch, None)

    def _end(self, batch: list[_Asked], error: Exception | None) -> None:
        if error is not None:
            self._undo(batch, translate(error, self._path))
        self._settle(batch)
        if self._asked:
            self._loop.call_soon(self._begin)
        else:
            self._idle.set()

    def _undo(self, batch: list[_Asked], reason: StoreError) -> None:
        """None of them happened, not even a refusal: it may rest on what another had written.

        A full disk makes SQLite roll back by itself; then the first to meet it knows why.
        """
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        met = (one.error for one in batch if isinstance(one.error, StoreUnavailable))
        error = next(met, reason)
        for one in batch:
            one.error = error
            one.topics = ()

    def _settle(self, batch: list[_Asked]) -> None:
        """Tell of changes first, so that caches are dropped before a caller goes on."""
        topics = {topic for one in batch for topic in one.topics}
        if topics:
            self._changes.publish(*topics)
        for one in batch:
            if one.future.done():
                continue
            if one.error is None:
                one.future.set_result(one.result)
            else:
                one.future.set_exception(one.error)

    def _watch(self) -> None:
        self._watching = self._loop.call_later(WATCH_SECONDS, self._watch)
        if self._idle.is_set():
            self._look_for_others()

    def _look_for_others(self) -> None:
        """Whether another process committed; a locked database is looked at the next time."""
        with contextlib.suppress(sqlite3.Error):
            version = self._data_version()
            if version != self._seen_version:
                self._seen_version = version
                self._changes.publish(EVERYTHING)

    def _data_version(self) -> int:
        """It changes when another connection committed, never by this one's own commits."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class _WaitingThread:
    """Waits in the place of the event loop, one call after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Outcome] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="sqlite-commit", daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Any], outcome: Outcome) -> None:
        self._calls.put((call, outcome))

    def stop(self) -> None:
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            call, outcome = asked
            error: Exception | None = None
            try:
                call()
            except Exception as caught:  # noqa: BLE001 - handed over, or its callers would hang
                error = caught
            # When the loop is closed nobody is left to hear it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(outcome, error)
