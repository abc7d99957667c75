"""A second process on the same store.

Run as `python -m tests.support.store_process ROLE URL`; it prints a line per event.
"""

import asyncio
import logging
import os
import signal
import sys

from agentjobs.store.changes import Signal
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database, schema_is_supported
from tests.support.stores import add, opened


async def listen(url: str) -> None:
    """Prints `changed keys` or `changed jobs` when a topic changes."""
    async with opened(url) as db:
        with db.changes.listen("keys") as keys, db.changes.listen("jobs") as jobs:
            _say("ready")
            await asyncio.gather(_report(keys, "keys"), _report(jobs, "jobs"))


async def _report(signal: Signal, topic: str) -> None:
    if await signal.wait(30):
        _say(f"changed {topic}")


async def change(url: str) -> None:
    """Like a short admin command: one change with its notifications, then exit."""

    async def work(tx: Transaction) -> None:
        await add(tx, "changed")
        await tx.invalidate("keys")
        tx.announce("jobs")

    async with opened(url) as db:
        await db.transact(work)


async def write(url: str) -> None:
    """Prints each name once it is committed, until killed."""
    db = await open_database(url, migrate=False)

    async def keep_writing(writer: int) -> None:
        for number in range(1_000_000):
            _say(await db.transact(add, f"{writer}-{number}"))

    await asyncio.gather(*(keep_writing(writer) for writer in range(8)))


async def migrate(url: str) -> None:
    db = await open_database(url, migrate=True)
    _say(f"current {await schema_is_supported(db)}")
    await db.close()


async def die_in_conversion(url: str) -> None:
    """Dies like from `kill -9` after the first step of a conversion, before its commit."""

    def die(record: logging.LogRecord) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    conversion = logging.getLogger("agentjobs.store.migrations.from_0_2")
    conversion.setLevel(logging.INFO)
    conversion.addFilter(die)
    await open_database(url, migrate=True, convert=True)


async def imports(url: str) -> None:
    db = await open_database(url, migrate=True)
    await db.close()
    _say(" ".join(name for name in ("alembic", "sqlalchemy", "asyncpg") if name in sys.modules))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    roles = (listen, change, write, migrate, die_in_conversion, imports)
    role = {role.__name__: role for role in roles}[sys.argv[1]]
    asyncio.run(role(sys.argv[2]))
