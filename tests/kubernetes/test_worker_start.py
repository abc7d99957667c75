"""A worker that starts while its cluster is away is not ready, and becomes so by itself."""

from contextlib import closing
from pathlib import Path

import httpx

from tests.kubernetes import node_faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.gated_jobs import worker_environment
from tests.support.kubernetes.client import ApiClient
from tests.support.postgres import free_port
from tests.support.service import Service, wait_until


def test_a_worker_waits_for_its_cluster(cluster: Cluster, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    def readiness() -> tuple[int, str]:
        try:
            response = httpx.get(f"http://{address}/readyz", trust_env=False)
        except httpx.TransportError:
            return 0, ""
        return response.status_code, response.text

    with closing(ApiClient(cluster.kubeconfig)) as client:
        environment = {
            **worker_environment(cluster, client.namespace, cluster.kubeconfig),
            "AGENTJOBS_METRICS_BIND": address,
        }
        worker = Service(tmp_path / "worker", environment, ("worker",))
        with node_faults.stopped_api_server(cluster):
            worker.start()
            words = "This worker starts no jobs: the Kubernetes API server does not answer"
            wait_until(lambda: words in readiness()[1], "the worker to say so")
            assert readiness()[0] == 503
        wait_until(lambda: readiness()[0] == 200, "the worker to be ready")
        with node_faults.stopped_api_server(cluster):
            wait_until(lambda: words in readiness()[1], "the worker to notice it")
        wait_until(lambda: readiness()[0] == 200, "the worker to be ready again")
        assert worker.stop() == 0, worker.log()
