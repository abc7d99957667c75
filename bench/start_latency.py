"""From the accepted request to the spawned agent, on an otherwise idle machine, on both stores.

The agent is `date`, which writes the time to the job's log. The client takes the time when it has
received the 202; both use the same clock. The start of `date` itself, about a millisecond, is
included. Jobs run one after another, alternating between the stores. The job's timestamps show the
parts: `created_at` to `started_at` is queue, claim and checkout; the rest is the transaction of the
start and the sandbox.
"""

import contextlib
import http.client
import re
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.cluster import durable_cluster
from bench.report import verdict
from tests.support.service import Service, sample_repository

JOBS = 100
WARM_UP_JOBS = 5
GOALS_P50_MS = {"sqlite": 12.0, "postgresql": 15.0}
GOAL_P99_MS = 40.0
_REPO = "acme/shop"
_AGENT = '[[agents]]\nid = "clock"\nname = "Clock"\ncommand = ["date", "+%s%N"]\n'
_PAUSE_SECONDS = 0.05
_SAYS_THE_TIME = re.compile(rb"^(\d{19})$", re.MULTILINE)


@dataclass
class Client:
    """One keep-alive connection of the standard library."""

    address: str
    key: str
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(self.address, timeout=70)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        self._connection.request(method, f"/v1{path}", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content!r}")
        return content


@dataclass(frozen=True)
class Start:
    """Milliseconds until the agent ran."""

    since_sent: float
    since_accepted: float
    in_queue_and_checkout: float
    in_sandbox: float


def measure() -> list[dict[str, Any]]:
    starts: dict[str, list[Start]] = {"sqlite": [], "postgresql": []}
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(durable_cluster())
        urls = {"sqlite": "", "postgresql": cluster.url(cluster.create_database())}
        clients = {store: stack.enter_context(_service(urls[store])) for store in starts}
        for _ in range(WARM_UP_JOBS + JOBS):
            for store, client in clients.items():
                starts[store].append(_one_job(client))
    return [_figure(store, starts[store][WARM_UP_JOBS:]) for store in starts]


def _one_job(client: Client) -> Start:
    body = msgspec.json.encode({"repo": _REPO, "agent": "clock"})
    sent = time.time_ns()
    answer = client.ask("POST", "/jobs", body)
    accepted = time.time_ns()
    job = _when_over(client, msgspec.json.decode(answer)["job_id"])
    spawned = _agent_time(client, job["job_id"])
    time.sleep(_PAUSE_SECONDS)  # cleanup after a job must not overlap with the next start
    created, started = _nanoseconds(job["created_at"]), _nanoseconds(job["started_at"])
    return Start(
        since_sent=(spawned - sent) / 1e6,
        since_accepted=(spawned - accepted) / 1e6,
        in_queue_and_checkout=(started - created) / 1e6,
        in_sandbox=(spawned - started) / 1e6,
    )


def _when_over(client: Client, job_id: str) -> dict[str, Any]:
    while True:
        answer = client.ask("GET", f"/jobs/{job_id}?wait_seconds=10")
        job: dict[str, Any] = msgspec.json.decode(answer)
        if job["status"] not in {"queued", "running"}:
            return job


def _agent_time(client: Client, job_id: str) -> int:
    match = _SAYS_THE_TIME.search(client.ask("GET", f"/jobs/{job_id}/logs"))
    if match is None:
        raise RuntimeError(f"the agent of {job_id} did not say the time")
    return int(match[1])


def _nanoseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1e3) * 1_000_000


def _figure(store: str, starts: list[Start]) -> dict[str, Any]:
    accepted = statistics.quantiles((one.since_accepted for one in starts), n=100)
    return {
        "store": store,
        "jobs": len(starts),
        "p50 ms": round(accepted[49], 1),
        "p95 ms": round(accepted[94], 1),
        "p99 ms": round(accepted[98], 1),
        "goal p50 ms": GOALS_P50_MS[store],
        "goal p99 ms": GOAL_P99_MS,
        "p50 ms since sent": _median(one.since_sent for one in starts),
        "until started_at": _median(one.in_queue_and_checkout for one in starts),
        "then until agent": _median(one.in_sandbox for one in starts),
        "verdict": verdict(met=accepted[49] <= GOALS_P50_MS[store] and accepted[98] <= GOAL_P99_MS),
    }


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 1)


@contextlib.contextmanager
def _service(database_url: str) -> Iterator[Client]:
    """A complete service with an indexed repository."""
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        data_dir = Path(directory) / "data"
        data_dir.mkdir(mode=0o700)
        (data_dir / "agentjobs.toml").write_text(_AGENT)
        service = Service(data_dir, {"AGENTJOBS_DATABASE_URL": database_url}).start()
        try:
            key = service.key()
            service.connect(sample_repository(Path(directory) / "shop"), _REPO)
            service.client(key).wait_ready(_REPO)
            yield Client(urlsplit(service.base_url).netloc, key)
        finally:
            service.stop()
