"""Helpers for tests of the store: second connections, other processes, waiting for conditions."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from tests.support.paths import PROJECT

INSERT = "INSERT INTO organizations (id, name, plan, created_at) VALUES (:id, :id, 'free', 0)"
PROCESS_SECONDS = 60.0


async def add(tx: Transaction, name: str) -> str:
    await tx.execute(INSERT, id=name)
    return name


async def names(db: Database) -> list[str]:
    return [row["name"] for row in await db.fetch_all("SELECT name FROM organizations ORDER BY id")]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    db = await open_database(url, migrate=False)
    try:
        yield db
    finally:
        await db.close()


@asynccontextmanager
async def process(role: str, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs a role of `tests/support/store_process.py` and kills it at the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.store_process", role, url,
        cwd=PROJECT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def read_line(
    started: asyncio.subprocess.Process, within_seconds: float = PROCESS_SECONDS
) -> str:
    assert started.stdout is not None
    async with asyncio.timeout(within_seconds):
        return (await started.stdout.readline()).decode().strip()


async def until(condition: Callable[[], bool], within_seconds: float = 15) -> None:
    async with asyncio.timeout(within_seconds):
        while not condition():  # noqa: ASYNC110 - not every condition has an event to wait for
            await asyncio.sleep(0.005)
