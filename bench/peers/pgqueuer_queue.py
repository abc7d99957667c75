"""pgqueuer: enqueues and drains COUNT empty jobs, 16 at once. Prints jobs per second as JSON."""

import asyncio
import json
import sys
import time

import asyncpg
import uvloop
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode

AT_ONCE = 16


async def main(dsn: str, count: int) -> None:
    async with asyncpg.create_pool(dsn, min_size=AT_ONCE, max_size=AT_ONCE + 2) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        began = time.perf_counter()
        await asyncio.gather(*(_enqueue(queries, count // AT_ONCE) for _ in range(AT_ONCE)))
        enqueued = time.perf_counter()
        manager = PgQueuer(driver)
        manager.entrypoint("empty")(_run)
        await manager.qm.run(
            batch_size=AT_ONCE,
            max_concurrent_tasks=2 * AT_ONCE,
            mode=QueueExecutionMode.drain,
        )
        drained = time.perf_counter()
        total = count // AT_ONCE * AT_ONCE
        print(
            json.dumps(
                {"enqueue": total / (enqueued - began), "drain": total / (drained - enqueued)}
            )
        )


async def _enqueue(queries: Queries, count: int) -> None:
    for _ in range(count):
        await queries.enqueue("empty", b"{}")


async def _run(_job: object) -> None:
    return


uvloop.run(main(sys.argv[1], int(sys.argv[2])))
