"""DBOS: enqueues and drains COUNT empty workflows, 16 at once. Prints jobs per second as JSON."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, DBOSConfig

AT_ONCE = 16


def main(dsn: str, count: int) -> None:
    config: DBOSConfig = {"name": "bench", "system_database_url": dsn, "run_admin_server": False}
    DBOS(config=config)

    @DBOS.workflow()
    def empty() -> None:
        return

    DBOS.launch()
    queue = DBOS.register_queue("empty", worker_concurrency=AT_ONCE, polling_interval_sec=0.01)
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as executor:
        handles = list(executor.map(lambda _: queue.enqueue(empty), range(count)))
    enqueued = time.perf_counter()
    for handle in handles:
        handle.get_result()
    drained = time.perf_counter()
    # The workers start while jobs are enqueued, so only the whole is a fair figure.
    print(json.dumps({"enqueue": count / (enqueued - began), "drain": count / (drained - began)}))
    DBOS.destroy()


main(sys.argv[1], int(sys.argv[2]))
