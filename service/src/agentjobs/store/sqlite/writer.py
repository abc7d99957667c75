"""The only connection that writes to SQLite: concurrent transactions share a commit.

Statements run on the event loop's thread; only waiting for the disk or for another process's lock
happens in a thread. (If the statements ran there too, a busy event loop would starve the writer,
because both threads need the interpreter lock for each statement.) A large transaction runs alone,
in the thread.
"""

import asyncio
import contextlib
import logging
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
from agentjobs.store.sqlite.connection import begin_with_retry, is_busy, translate
from agentjobs.store.sqlite.transaction import SqliteTransaction, run_to_completion
from agentjobs.store.transactions import current
from agentjobs_runtime.clock import seconds_to_tick

WATCH_SECONDS = 0.2
_BATCH_SECONDS = 0.005
"""How long one batch may block the event loop."""
_UNKNOWN_VERSION = -1

_log = logging.getLogger(__name__)

Work = Callable[[SqliteTransaction], Coroutine[Any, Any, Any]]
Outcome = Callable[[Exception | None], None]


@dataclass(slots=True)
class _Request:
    """A submitted transaction and its outcome."""

    work: Work
    future: asyncio.Future[Any]
    is_large: bool = False
    result: Any = None
    error: BaseException | None = None
    topics: Iterable[str] = ()


class SqliteWriter:
    """One batch at a time: begin, run the queued transactions, commit, resolve their futures."""

    def __init__(self, connection: sqlite3.Connection, path: Path, changes: Changes) -> None:
        self._connection = connection
        self._path = path
        self._changes = changes
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Request] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = _WaitingThread(self._loop)
        # Unknown while another process locks the file: then the first check counts as a change.
        self._seen_version = _UNKNOWN_VERSION
        with contextlib.suppress(sqlite3.Error):
            self._seen_version = self._data_version()
        self._watch_timer: asyncio.TimerHandle | None = None
        changes.on_subscribed = self._start_watching

    def submit(self, work: Work, *, is_large: bool = False) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._queue.append(_Request(work, future, is_large))
        if self._idle.is_set():
            self._idle.clear()
            # Deferred, so that other transactions of this loop iteration join the batch.
            self._loop.call_soon(self._begin)
        return future

    async def stop(self) -> None:
        """Finish queued transactions and close the connection."""
        await self._idle.wait()
        self._changes.on_subscribed = lambda _topic: None
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        await asyncio.to_thread(self._thread.stop)
        await asyncio.to_thread(self._connection.close)

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                self._thread.run(lambda: begin_with_retry(self._connection), self._on_begun)
            else:
                self._on_begun(error)
        else:
            self._on_begun(None)

    def _on_begun(self, error: Exception | None) -> None:
        if error is not None:
            refused = list(self._queue)
            self._queue.clear()
            self._end(refused, error)
            return
        self._detect_other_writers()
        if self._queue[0].is_large:
            large = self._queue.popleft()
            self._thread.run(
                lambda: self._run_large(large), lambda error: self._end([large], error)
            )
            return
        changes_before = self._connection.total_changes
        batch: list[_Request] = []
        try:
            self._run_batch(batch)
        except Exception as lost:  # noqa: BLE001 - later transactions must run whatever it was
            self._end(batch or [self._queue.popleft()], lost)
            return
        if all(request.error for request in batch):
            self._end_immediately(batch, "ROLLBACK")
        elif self._connection.total_changes == changes_before:
            # Nothing was written, so the commit does not wait for the disk.
            self._end_immediately(batch, "COMMIT")
        else:
            self._thread.run(
                lambda: self._connection.execute("COMMIT"), lambda error: self._end(batch, error)
            )

    def _run_large(self, request: _Request) -> None:
        if not request.future.cancelled():
            self._run_request(request)
        self._connection.execute("ROLLBACK" if request.error else "COMMIT")

    def _run_batch(self, batch: list[_Request]) -> None:
        until = time.monotonic() + _BATCH_SECONDS
        while self._queue and (not batch or time.monotonic() < until):
            if self._queue[0].is_large:
                return
            request = self._queue.popleft()
            if request.future.cancelled():
                continue
            # SQLite keeps the former content of each page that changes after a savepoint.
            is_alone = not batch and not self._queue
            batch.append(request)
            if is_alone:
                # Nothing may join it: if it fails, everything is rolled back.
                self._run_request(request)
                return
            self._run_in_savepoint(request)

    def _run_in_savepoint(self, request: _Request) -> None:
        """So that a failure does not affect the others."""
        self._connection.execute("SAVEPOINT one")
        self._run_request(request)
        if request.error is not None:
            self._connection.execute("ROLLBACK TO one")
        self._connection.execute("RELEASE one")

    def _run_request(self, request: _Request) -> None:
        tx = SqliteTransaction(self._connection, self._path)
        outer = current.set(tx)
        try:
            request.result = run_to_completion(request.work(tx))
            tx.check_result()
            request.topics = tx.topics
        except BaseException as error:  # noqa: BLE001 - the caller's future receives it
            request.error = error
        finally:
            tx.end()
            current.reset(outer)

    def _end_immediately(self, batch: list[_Request], statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._end(batch, error)
        else:
            self._end(batch, None)

    def _end(self, batch: list[_Request], error: Exception | None) -> None:
        if error is not None:
            self._undo(batch, translate(error, self._path))
        self._settle(batch)
        if self._queue:
            self._loop.call_soon(self._begin)
        else:
            self._idle.set()

    def _undo(self, batch: list[_Request], reason: StoreError) -> None:
        """All fail, even those that raised by themselves: they may have read uncommitted changes.

        A full disk makes SQLite roll back by itself; the first error then has the reason.
        """
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        errors = (request.error for request in batch if isinstance(request.error, StoreUnavailable))
        error = next(errors, reason)
        for request in batch:
            request.error = error
            request.topics = ()

    def _settle(self, batch: list[_Request]) -> None:
        """Publish changes first, so that caches are cleared before a caller continues."""
        topics = {topic for request in batch for topic in request.topics}
        try:
            if topics:
                self._changes.publish(*topics)
        except Exception:  # noqa: BLE001 - the callers must learn their outcomes
            _log.exception("a subscriber failed")
        for request in batch:
            if request.future.done():
                continue
            if request.error is None:
                request.future.set_result(request.result)
            else:
                request.future.set_exception(request.error)

    def _start_watching(self, _topic: str) -> None:
        if self._watch_timer is None:
            self._schedule_watch()

    def _schedule_watch(self) -> None:
        self._watch_timer = self._loop.call_later(seconds_to_tick(WATCH_SECONDS), self._watch)

    def _watch(self) -> None:
        """Runs while there are subscribers to changes."""
        if not self._changes.topics:
            self._watch_timer = None
            return
        self._schedule_watch()
        if self._idle.is_set():
            self._detect_other_writers()

    def _detect_other_writers(self) -> None:
        """Publish a change if another process committed; skipped while the database is locked."""
        with contextlib.suppress(sqlite3.Error):
            version = self._data_version()
            if version != self._seen_version:
                self._seen_version = version
                self._changes.publish(EVERYTHING)

    def _data_version(self) -> int:
        """Changes with commits of other connections, never with this connection's own."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class _WaitingThread:
    """Runs blocking calls one after the other, off the event loop."""

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
        while (call_and_outcome := self._calls.get()) is not None:
            call, outcome = call_and_outcome
            error: Exception | None = None
            try:
                call()
            except Exception as caught:  # noqa: BLE001 - passed to the callback; otherwise callers would hang
                error = caught
            # The event loop may already be closed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(outcome, error)
