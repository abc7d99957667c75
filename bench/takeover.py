"""From kill -9 of the worker that runs a job to the start of the job's agent on another worker.

One `serve` and two workers over PostgreSQL, with the default lease. The agent writes the time to
its log and waits. Rounds kill at different moments between two renewals of the lease.
"""

import contextlib
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.cluster import durable_cluster
from bench.report import verdict
from tests.support.service import Api, Service, sample_repository, wait_until

ROUNDS = 6
GOAL_SECONDS = 12.0
_REPO = "acme/shop"
_AGENT = """
[[agents]]
id = "clock"
name = "Clock"
command = ["sh", "-c", "date +%s%N; exec sleep 600"]
"""
# Leases are renewed every 3 seconds.
_STEP_SECONDS = 0.5
_TIMES = re.compile(r"^(\d{19})$", re.MULTILINE)


def measure() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory,
        durable_cluster() as cluster,
    ):
        environment = {
            "AGENTJOBS_DATABASE_URL": cluster.url(cluster.create_database()),
            "AGENTJOBS_SLOTS": "1",
        }
        with _serve(Path(directory), environment) as (serve, api):
            environment["AGENTJOBS_PUBLIC_URL"] = serve.root_url
            seconds = _takeovers(Path(directory), environment, api)
    return [
        {
            "kills": len(seconds),
            "median s": round(statistics.median(seconds), 2),
            "longest s": round(max(seconds), 2),
            "goal s": GOAL_SECONDS,
            "verdict": verdict(met=max(seconds) <= GOAL_SECONDS),
        }
    ]


def _takeovers(directory: Path, environment: dict[str, str], api: Api) -> list[float]:
    workers = [_start_worker(directory / "worker-0", environment)]
    seconds = []
    try:
        for number in range(ROUNDS):
            job_id = api.create(_REPO, "clock")
            wait_until(lambda: _times(api, job_id), "the agent's start")  # noqa: B023
            workers.append(_start_worker(directory / f"worker-{number + 1}", environment))
            wait_until(lambda: "worker ready" in workers[-1].log(), "the second worker")
            time.sleep(number * _STEP_SECONDS)
            killed_at = time.time()
            workers.pop(0).kill()
            wait_until(lambda: len(_times(api, job_id)) == 2, "the takeover")  # noqa: B023
            seconds.append(_times(api, job_id)[1] / 1e9 - killed_at)
            api.http.post(f"/jobs/{job_id}/cancel")
            api.wait_status(job_id, "cancelled")
    finally:
        for worker in workers:
            worker.signal(signal.SIGTERM)
            worker.stop()
    return seconds


def _start_worker(data_dir: Path, environment: dict[str, str]) -> Service:
    data_dir.mkdir(mode=0o700)
    (data_dir / "agentjobs.toml").write_text(_AGENT)
    return Service(data_dir, environment, ("worker",)).start()


def _times(api: Api, job_id: str) -> list[int]:
    return [int(each) for each in _TIMES.findall(api.log(job_id))]


@contextlib.contextmanager
def _serve(directory: Path, environment: dict[str, str]) -> Iterator[tuple[Service, Api]]:
    data_dir = directory / "serve"
    data_dir.mkdir(mode=0o700)
    (data_dir / "agentjobs.toml").write_text(_AGENT)
    serve = Service(data_dir, dict(environment), ("serve",)).start()
    try:
        serve.connect(sample_repository(directory / "shop"), _REPO)
        api = serve.client(serve.key())
        api.wait_ready(_REPO)
        yield serve, api
    finally:
        serve.stop()
