"""A hundred jobs over ten slots, while workers, pods, the node and the API server are killed."""

import base64
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import node_faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.namespaces import CommandFailed
from tests.support.environments import ENDED
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.postgres import PostgresCluster, free_port
from tests.support.service import (
    Api,
    Service,
    git,
    pull_requests,
    sample_repository,
    wait_until,
)

SEED = int(os.environ.get("AGENTJOBS_TEST_SEED", "1"))
JOBS = int(os.environ.get("AGENTJOBS_TEST_JOBS", "100"))
WORKERS = 2
SLOTS = 5
REPO = "acme/shop"
# Long enough to be met by faults.
AGENTS = """
[[agents]]
id = "slow"
name = "Slow"
command = ["sh", "-c", "echo the agent begins; sleep 4; echo changed > changed.txt"]
"""
_FAULT_SECONDS = 400
_PAUSE_SECONDS = (2.0, 6.0)
_TAKEOVER_SECONDS = 20.0
KEY = base64.b64encode(bytes(range(32))).decode()


@dataclass
class Fleet:
    """One API process and workers over PostgreSQL, whose agents are pods."""

    cluster: Cluster
    namespace: str
    serve: Service
    workers: list[Service]
    api: Api
    random: random.Random
    faults: list[str] = field(default_factory=list)

    def disturb(self) -> None:
        fault = self.random.choice(self._choices())
        try:
            fault()
        except (CommandFailed, AssertionError):
            return  # The pod ended meanwhile.
        self.faults.append(fault.__name__.strip("_"))

    def disturb_until_ended(self, jobs: set[str]) -> list[dict[str, Any]]:
        """The jobs as a client sees them in the end."""
        ended: dict[str, dict[str, Any]] = {}
        deadline = time.monotonic() + _FAULT_SECONDS
        while time.monotonic() < deadline and len(ended) < len(jobs):
            self.disturb()
            time.sleep(self.random.uniform(*_PAUSE_SECONDS))  # between two faults
            for job_id in jobs - ended.keys():
                job = self.api.job(job_id)
                if job["status"] in ENDED:
                    ended[job_id] = job
        return [self.api.wait_status(job_id, *ENDED) for job_id in sorted(jobs)]

    def _choices(self) -> list[Callable[[], None]]:
        return [
            *[self._restart_worker] * 3,
            self._replace_worker,
            *[self._delete_pod] * 2,
            self._evict_pod,
            self._kill_container,
            self._kill_shim,
            self._kill_node,
            self._restart_api_server,
        ]

    def _restart_worker(self) -> None:
        worker = self.random.choice(self.workers)
        worker.kill()
        worker.start()

    def _replace_worker(self) -> None:
        """The other workers take over before it returns."""
        worker = self.random.choice(self.workers)
        worker.kill()
        time.sleep(_TAKEOVER_SECONDS)  # longer than a lease
        worker.start()

    def _delete_pod(self) -> None:
        node_faults.delete_pod(self.cluster, self._any_pod(), self.namespace)

    def _evict_pod(self) -> None:
        node_faults.evict(self.cluster, self._any_pod(), self.namespace)

    def _kill_container(self) -> None:
        node_faults.kill_container(self.cluster, self._any_pod(), self.namespace)

    def _kill_shim(self) -> None:
        node_faults.kill_shim(self.cluster, self._any_pod(), self.namespace)

    def _kill_node(self) -> None:
        """With everything on it. It comes back."""
        pods = self.pods()
        for pod in pods:
            with suppress(CommandFailed, AssertionError):
                node_faults.kill_shim(self.cluster, pod, self.namespace)
        node_faults.stop_kubelet(self.cluster)
        self.cluster.start_kubelet()

    def _restart_api_server(self) -> None:
        with node_faults.stopped_api_server(self.cluster):
            pass

    def _any_pod(self) -> str:
        pods = self.pods()
        assert pods
        return self.random.choice(pods)

    def pods(self) -> list[str]:
        names = self.cluster.kubectl(
            "get", "pods", f"--namespace={self.namespace}", "-o", "name",
            "--field-selector=status.phase=Running",
        )  # fmt: skip
        return [name.removeprefix("pod/") for name in names.split()]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    server = PostgresCluster()
    server.start()
    yield server.url(server.create_database())
    server.remove()


@contextmanager
def running_fleet(cluster: Cluster, database: str, directory: Path) -> Iterator[Fleet]:
    client = ApiClient(cluster.kubeconfig)
    environment = {
        "AGENTJOBS_DATABASE_URL": database,
        "AGENTJOBS_ENCRYPTION_KEY": KEY,
        "AGENTJOBS_SANDBOX": "kubernetes",
        "AGENTJOBS_KUBERNETES_NAMESPACE": client.namespace,
        "AGENTJOBS_KUBERNETES_IMAGE": AGENT_IMAGE,
        "AGENTJOBS_KUBERNETES_WORKER_CIDRS": f"{cluster.addresses.machine}/32",
        "AGENTJOBS_LIMIT_MEMORY_MIB": "64",
        "AGENTJOBS_SLOTS": str(SLOTS),
        "AGENTJOBS_QUEUE_LIMIT": "1000",
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    names = ["serve", *(f"worker-{number}" for number in range(WORKERS))]
    for name in names:
        (directory / name).mkdir()
        (directory / name / "agentjobs.toml").write_text(AGENTS)
    serve = Service(directory / "serve", environment, ("serve",), port=free_port()).start()
    environment["AGENTJOBS_PUBLIC_URL"] = serve.root_url
    workers = [Service(directory / name, environment, ("worker",)) for name in names[1:]]
    serve.connect(sample_repository(directory / "source"), REPO)
    api = serve.client(serve.key())
    api.wait_ready(REPO)
    for worker in workers:
        worker.start()
    try:
        yield Fleet(cluster, client.namespace, serve, workers, api, random.Random(SEED))
    finally:
        for process in (*workers, serve):
            process.stop()
    wait_until(lambda: client.get(client.pods)["items"] == [], "no pod is left")
    client.close()


def test_no_job_is_lost_or_done_twice(cluster: Cluster, database: str, tmp_path: Path) -> None:
    with running_fleet(cluster, database, tmp_path) as fleet:
        jobs = {fleet.api.create(REPO, "slow") for _ in range(JOBS)}
        ended = fleet.disturb_until_ended(jobs)
        failures = [job for job in ended if job["status"] != "completed"]
        assert failures == [], fleet.faults
        assert len({job["pr_number"] for job in ended}) == JOBS
        repository = next((tmp_path / "serve" / "git").glob("*.git"))
        for job in ended:
            commits = git(repository, "rev-list", "--count", f"main..{job['branch']}")
            assert commits.strip() == "1", job
        assert pull_requests(fleet.serve) == JOBS
        begins = [fleet.api.log(job["job_id"]).count("the agent begins") for job in ended]
        counts = dict(Counter(fleet.faults))
        print(f"seed {SEED}: {JOBS} jobs, {sum(begins)} agents, {counts}")  # noqa: T201 - of a long run
