"""An idle `agentjobs up` for a minute: CPU time and memory, on both stores at the same time."""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bench.cluster import durable_cluster
from bench.process_usage import cpu_seconds, memory_mb
from bench.report import verdict
from tests.support.service import PROGRAM, Api, Service, sample_repository

SECONDS = 60
GOAL_CORE = 0.01
GOAL_MEMORY_MB = 150
# Pools close unused connections, and a collection follows the start.
SETTLE_SECONDS = 20
REPO = "acme/shop"


class InstalledService(Service):
    """Started as an operator does, so that it shares no memory with this process."""

    def _spawn(self, arguments: list[str], log: IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(durable_cluster())
        urls = {"sqlite": "", "postgresql": cluster.url(cluster.create_database())}
        pids = {
            store: stack.enter_context(service_after_a_job({"AGENTJOBS_DATABASE_URL": url}))[0]
            for store, url in urls.items()
        }
        time.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        used = {store: cpu_seconds(pid) for store, pid in pids.items()}
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        return [
            _figure(store, (cpu_seconds(pid) - used[store]) / seconds, memory_mb(pid))
            for store, pid in pids.items()
        ]


@contextlib.contextmanager
def service_after_a_job(environment: dict[str, str]) -> Iterator[tuple[int, Api]]:
    """The process of an `agentjobs up` with a repository that is indexed, and its API."""
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        service = InstalledService(Path(directory) / "data", environment).start()
        try:
            service.connect(sample_repository(Path(directory) / "shop"), REPO)
            api = service.client(service.key())
            api.wait_ready(REPO)
            api.finish(REPO, "edit")
            assert service.process is not None
            yield service.process.pid, api
        finally:
            service.stop()


def _figure(store: str, core: float, memory: float) -> dict[str, Any]:
    return {
        "store": store,
        "% of a core": round(core * 100, 2),
        "goal %": GOAL_CORE * 100,
        "MB": round(memory, 1),
        "goal MB": GOAL_MEMORY_MB,
        "verdict": verdict(met=core <= GOAL_CORE and memory <= GOAL_MEMORY_MB),
    }
