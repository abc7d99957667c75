"""procrastinate: enqueues and drains COUNT empty jobs, 16 at once. Prints jobs per second."""

import asyncio
import json
import sys
import time

import procrastinate
import uvloop

AT_ONCE = 16


async def main(dsn: str, count: int) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=AT_ONCE, max_size=AT_ONCE + 2)
    app = procrastinate.App(connector=connector)

    @app.task(name="empty")
    async def empty() -> None:
        return

    async def enqueue(times: int) -> None:
        for _ in range(times):
            await empty.defer_async()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = time.perf_counter()
        await asyncio.gather(*(enqueue(count // AT_ONCE) for _ in range(AT_ONCE)))
        enqueued = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=AT_ONCE, install_signal_handlers=False)
        drained = time.perf_counter()
    total = count // AT_ONCE * AT_ONCE
    print(
        json.dumps({"enqueue": total / (enqueued - began), "drain": total / (drained - enqueued)})
    )


uvloop.run(main(sys.argv[1], int(sys.argv[2])))
