"""Jobs in pods of a test cluster whose agents work until a test lets them finish."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.service import Api, Service, sample_repository, wait_until

REPO = "acme/shop"
LOST = "the sandbox was lost, and the job is queued again: "
# As by default.
_LEASE = timedelta(seconds=10)
_BEGIN = "the agent begins"
_AGENTS = """
[[agents]]
id = "gated"
name = "Gated"
network = ["GATE"]
command = ["python3", "gated.py"]
"""
_PROGRAM = f"""
import time
from urllib import request

print("{_BEGIN}", flush=True)
while request.urlopen("http://GATE/").read() != b"open":
    time.sleep(0.1)
open("changed.txt", "w").write("changed")
"""


class Gate:
    def __init__(self) -> None:
        self.is_open = threading.Event()

    @contextmanager
    def listen(self, address: str) -> Iterator[str]:
        """Its address with the port."""
        is_open = self.is_open

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = b"open" if is_open.is_set() else b"closed"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Not on the tests' own output."""

        server = ThreadingHTTPServer((address, 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@dataclass
class GatedJobs:
    """A service whose worker runs agents in a namespace of the cluster."""

    service: Service
    api: Api
    client: ApiClient
    gate: Gate

    @property
    def namespace(self) -> str:
        return self.client.namespace

    def create(self) -> str:
        return self.api.create(REPO, "gated")

    def begin(self) -> str:
        """A job whose agent runs."""
        self.gate.is_open.clear()
        job_id = self.create()
        wait_until(lambda: _BEGIN in self.api.log(job_id), "the agent to run")
        return job_id

    def finish(self, job_id: str, *, agents: int) -> str:
        """The log of the job, which has ended well after so many agents had begun."""
        self.gate.is_open.set()
        job = self.api.wait_status(job_id, "completed", "failed", "cancelled")
        log = self.api.log(job_id)
        assert (job["status"], job["attempt"]) == ("completed", 1), (job["error"], log)
        assert log.count(_BEGIN) == agents, log
        assert self.api.events(job_id).count("job.completed") == 1
        return log

    def wait_for_a_lease(self) -> None:
        """Until the worker has been alive for longer than one lease."""
        began = self._heartbeat_at()
        wait_until(lambda: self._heartbeat_at() > began + _LEASE, "a lease to pass")

    def wait_for_words(self, job_id: str) -> None:
        """Until the job or its worker says that the cluster is away. As a rule, the job is claimed
        before the worker knows."""
        wait_until(
            lambda: (
                "waiting to create a pod" in self.api.log(job_id)
                or self.worker()["status"] == "unready"
            ),
            "it to be said that the cluster is away",
        )

    def worker(self) -> dict[str, Any]:
        """As operators see it."""
        worker: dict[str, Any]
        (worker,) = json.loads(self.service.admin("workers", "list", "--json"))["workers"]
        return worker

    def _heartbeat_at(self) -> datetime:
        return datetime.fromisoformat(self.worker()["heartbeat_at"])

    def pods(self) -> list[str]:
        items = self.client.get(self.client.pods)["items"]
        return [pod["metadata"]["name"] for pod in items]

    def wait_until_no_pod_is_left(self) -> None:
        wait_until(lambda: self.pods() == [], "no pod to be left")


def worker_environment(cluster: Cluster, namespace: str, kubeconfig: Path) -> dict[str, str]:
    return {
        "AGENTJOBS_SANDBOX": "kubernetes",
        "AGENTJOBS_KUBERNETES_NAMESPACE": namespace,
        "AGENTJOBS_KUBERNETES_IMAGE": AGENT_IMAGE,
        "AGENTJOBS_KUBERNETES_USER_NAMESPACES": "off",
        "AGENTJOBS_KUBERNETES_WORKER_CIDRS": f"{cluster.addresses.machine}/32",
        "AGENTJOBS_LIMIT_MEMORY_MIB": "64",
        "AGENTJOBS_SLOTS": "2",
        "AGENTJOBS_EGRESS_ALLOW": "10.0.0.0/8",
        "KUBECONFIG": str(kubeconfig),
    }


@contextmanager
def gated_jobs(cluster: Cluster, kubeconfig: Path, directory: Path) -> Iterator[GatedJobs]:
    """`kubeconfig` is that of the worker."""
    client, gate = ApiClient(cluster.kubeconfig), Gate()
    data = directory / "data"
    data.mkdir(parents=True)
    environment = worker_environment(cluster, client.namespace, kubeconfig)
    with gate.listen(cluster.addresses.machine) as address:
        (data / "agentjobs.toml").write_text(_AGENTS.replace("GATE", address))
        service = Service(data, environment).start()
        try:
            files = {"gated.py": _PROGRAM.replace("GATE", address)}
            service.connect(sample_repository(directory / "source", files), REPO)
            api = service.client(service.key())
            api.wait_ready(REPO)
            yield GatedJobs(service, api, client, gate)
        finally:
            gate.is_open.set()
            assert service.stop() == 0, service.log()
            client.close()
