"""A cut at every statement boundary of claim, start and finish leaves the job as it was or as it
should be, with its events, and the job still ends once.

On PostgreSQL the connection is lost before a statement is sent, or before its response arrives. On
SQLite the process is killed: the files are what it leaves behind.
"""

import contextlib
import itertools
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.sqlite.database import SqliteDatabase
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Cancelled,
    Completed,
    Failed,
    Kept,
    KeptWork,
    Outcome,
    Released,
)
from agentjobs_worker.logs.writer import LogWriter
from tests.faults.checker import LEGAL_EVENTS, letters
from tests.support.deliveries import DeliveryHarness
from tests.support.jobs import JobHarness, job_harness
from tests.support.stores import opened

BASE, COMMIT = "1" * 40, "2" * 40
DONE = Completed("http://h/1", 1, COMMIT, draft=False)
OUTCOMES: dict[str, Outcome] = {
    "completed": DONE,
    "failed": Failed("agent_failed", "exit code 3"),
    "cancelled": Cancelled(),
    "kept": Kept(KeptWork(BASE, COMMIT, b"a bundle")),
    "released": Released(),
}
STEPS = ("claim", "start", *OUTCOMES)
# Begin, a change, its events and their deliveries, and the commit.
MIN_STATEMENTS = 4


@dataclass
class Attempt:
    """A job right before a step. `claimed` is None before a claim, or if its response is lost."""

    harness: JobHarness
    step: str
    job_id: str
    claimed: ClaimedJob | None = None

    async def run(self) -> None:
        if self.step == "claim":
            self.claimed = await self.harness.claim()
            return
        assert self.claimed is not None
        if self.step == "start":
            await start_job(self.harness.db, self.claimed, BASE, "the prompt")
        else:
            await finish_job(self.harness.db, self.claimed, OUTCOMES[self.step])

    async def state(self) -> tuple[Any, ...]:
        """Everything about the job that a transaction must change together."""
        db = self.harness.db
        job = await db.fetch_one(
            "SELECT * FROM jobs j LEFT JOIN job_queue q ON q.job_id = j.id WHERE j.id = :id",
            id=self.job_id,
        )
        assert job is not None
        count_of = "SELECT count(*) AS n FROM {} WHERE job_id = :id"
        columns = ("status", "attempt", "last_sequence", "error_code", "pr_url")
        present = ("lease_owner", "credential_hash", "lease_expires_at", "started_at", "kept_at")
        counts = [
            await db.fetch_one(count_of.format(table), id=self.job_id)
            for table in ("deliveries", "kept_work", "lost_claims")
        ]
        return (
            *(job[column] for column in columns),
            *(job[column] is not None for column in present),
            # On PostgreSQL it is a time.
            bool(job["fence"]),
            *(count["n"] for count in counts if count is not None),
            await self.events(),
        )

    async def events(self) -> str:
        rows = await self.harness.db.fetch_all(
            "SELECT * FROM events WHERE job_id = :id ORDER BY sequence", id=self.job_id
        )
        assert [row["sequence"] for row in rows] == list(range(1, len(rows) + 1))
        return letters(rows)

    async def end(self) -> None:
        """What its worker does after an error, and the others after that."""
        db = self.harness.db
        if self.claimed is not None:
            outcome = OUTCOMES.get(self.step, Released())
            await finish_job(db, self.claimed, outcome)
        await self.harness.expire_leases()
        await rescue_lost_jobs(db, self.harness.context.settings)
        row = await db.fetch_one("SELECT status, kept_at FROM jobs WHERE id = :id", id=self.job_id)
        assert row is not None
        if row["status"] == "queued":
            claimed = await self.harness.claim("wrk_b")
            await start_job(db, claimed, BASE, "the prompt")
            await finish_job(db, claimed, DONE)
        elif row["status"] == "running":
            [claimed] = await claim_kept_work(db, 1, 10_000)
            await finish_job(db, claimed, DONE)
        events = await self.events()
        assert LEGAL_EVENTS.fullmatch(events)
        deliveries = await db.fetch_all(
            "SELECT sequence FROM deliveries WHERE job_id = :id ORDER BY sequence", id=self.job_id
        )
        assert [row["sequence"] for row in deliveries] == list(range(1, len(events) + 1))


async def prepare(harness: JobHarness, step: str) -> Attempt:
    attempt = Attempt(harness, step, await harness.job(harness.callers["acme"]))
    if step != "claim":
        attempt.claimed = await harness.claim()
    if step in OUTCOMES:
        assert attempt.claimed is not None
        await start_job(harness.db, attempt.claimed, BASE, "the prompt")
    return attempt


@pytest.fixture
async def subscribed(harness: JobHarness) -> JobHarness:
    caller = await harness.organization()
    await DeliveryHarness(harness.db).endpoint(caller.organization_id)
    return harness


@pytest.mark.parametrize("step", STEPS)
async def test_a_cut_at_any_statement_leaves_the_job_before_or_after_the_step(
    subscribed: JobHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    uncut = await prepare(subscribed, step)
    before = await uncut.state()
    await uncut.run()
    after = await uncut.state()
    assert before != after
    await uncut.end()

    if isinstance(subscribed.db, SqliteDatabase):
        cuts = kill_at_every_statement(subscribed, subscribed.db, step, tmp_path)
    else:
        cuts = disconnect_at_every_statement(subscribed, step, monkeypatch)
    states = []
    async for attempt in cuts:
        states.append(await attempt.state())
        assert states[-1] in (before, after)
        await attempt.end()
    assert len(states) >= MIN_STATEMENTS
    assert {before, after} == set(states)


async def kill_at_every_statement(
    harness: JobHarness, db: SqliteDatabase, step: str, directory: Path
) -> AsyncIterator[Attempt]:
    """The last one after the commit, before anybody learned of it."""
    attempt = await prepare(harness, step)
    copies: list[Path] = []

    def copy(_statement: str = "") -> None:
        copies.append(directory / f"{step}-{len(copies)}")
        copies[-1].mkdir()
        # In another process: closing the files in this one would drop SQLite's locks.
        files = [path for path in (db._path, Path(f"{db._path}-wal")) if path.exists()]
        subprocess.run(["cp", *files, copies[-1]], check=True)

    db._writer._connection.set_trace_callback(copy)
    await attempt.run()
    db._writer._connection.set_trace_callback(None)
    copy()
    for path in copies:
        async with opened(f"sqlite:///{path / db._path.name}") as left:
            copied = job_harness(left, harness.context.settings)
            # Nobody knows of the claim any more.
            yield Attempt(copied, step, attempt.job_id)


async def disconnect_at_every_statement(
    harness: JobHarness, step: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Attempt]:
    for cut in cuts_of_connections(monkeypatch):
        attempt = await prepare(harness, step)
        with cut, contextlib.suppress(StoreUnavailable, ClaimLost):
            await attempt.run()
        yield attempt


async def test_output_is_stored_once_wherever_the_connection_is_lost(
    subscribed: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = await prepare(subscribed, "completed")
    assert attempt.claimed is not None
    link = subscribed.link(attempt.claimed)
    expected = ""
    for number, cut in enumerate(cuts_of_connections(monkeypatch)):
        with cut:
            async with LogWriter(link, attempt.claimed, max_bytes=1_000) as log:
                log.write(f"{number}\n".encode())
        expected += f"{number}\n"
    chunks = await read_chunks(subscribed.db, attempt.job_id, 0, 1_000)
    assert "".join(chunk.text for chunk in chunks) == expected


def cuts_of_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator["Cut"]:
    """Before each statement is sent, and after each was executed; none on SQLite."""
    for is_executed in (False, True):
        for number in itertools.count(1):
            yield (cut := Cut(monkeypatch, number, is_executed))
            if cut.statements < number:
                break


@dataclass
class Cut:
    """Loses the connection of the statement with this number."""

    patch: pytest.MonkeyPatch
    number: int
    is_executed: bool
    statements: int = 0

    def __enter__(self) -> None:
        for method in ("execute", "executemany", "fetch", "fetchrow"):
            self.patch.setattr(asyncpg.Connection, method, self._wrap(method))

    def __exit__(self, *_: object) -> None:
        self.patch.undo()

    def _wrap(self, method: str) -> Callable[..., Awaitable[Any]]:
        original = getattr(asyncpg.Connection, method)

        async def call(connection: Any, *arguments: Any, **options: Any) -> Any:
            self.statements += 1
            if self.statements != self.number:
                return await original(connection, *arguments, **options)
            if self.is_executed:
                await original(connection, *arguments, **options)
            connection.terminate()
            return await original(connection, *arguments, **options)

        return call
