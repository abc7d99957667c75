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
from tests.support.service import PROGRAM, Service, sample_repository

SECONDS = 60
GOAL_CORE = 0.01
GOAL_MEMORY_MB = 150
# Pools close unused connections, and a collection follows the start.
_SETTLE_SECONDS = 20
_REPO = "acme/shop"


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
        pids = {store: stack.enter_context(_service(url)) for store, url in urls.items()}
        time.sleep(_SETTLE_SECONDS)
        began = time.monotonic()
        used = {store: cpu_seconds(pid) for store, pid in pids.items()}
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        return [
            _figure(store, (cpu_seconds(pid) - used[store]) / seconds, memory_mb(pid))
            for store, pid in pids.items()
        ]


@contextlib.contextmanager
def _service(database_url: str) -> Iterator[int]:
    """After its first job, with a repository that is indexed."""
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        service = InstalledService(
            Path(directory) / "data", {"AGENTJOBS_DATABASE_URL": database_url}
        ).start()
        try:
            service.connect(sample_repository(Path(directory) / "shop"), _REPO)
            api = service.client(service.key())
            api.wait_ready(_REPO)
            api.finish(_REPO, "edit")
            assert service.process is not None
            yield service.process.pid
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
