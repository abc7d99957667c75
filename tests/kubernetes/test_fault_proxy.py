"""The proxy fails as a real API server does, and passes everything else on."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.kubernetes.namespaces import wait_for

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def proxied(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[FaultProxy, httpx.Client]]:
    with fault_proxy(cluster, tmp_path) as (proxy, kubeconfig):
        config = json.loads(kubeconfig.read_text())
        token = config["users"][0]["user"]["token"]
        trust = ssl.create_default_context(cafile=str(cluster.run_directory / "ca.crt"))
        server = config["clusters"][0]["cluster"]["server"]
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=server, headers=headers, verify=trust, trust_env=False
        ) as client:
            yield proxy, client


def test_requests_pass(cluster: Cluster, tmp_path: Path) -> None:
    with fault_proxy(cluster, tmp_path) as (proxy, kubeconfig):
        command = [str(cluster.directory / "bin" / "kubectl"), "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(
            [*command, "get", "nodes", "-o", "name"], capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("node/node\n", "")
        assert "GET /api/v1/nodes" in proxy.requests


def test_faults_meet_only_the_requests_they_name(proxied: tuple[FaultProxy, httpx.Client]) -> None:
    proxy, client = proxied
    proxy.add(Fault(429, times=1, method="GET", path="/pods", retry_after_seconds=1))
    proxy.add(Fault(None, times=1, path="/pods"))
    refused = client.get(PODS)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json()["reason"] == "TooManyRequests"
    with pytest.raises(httpx.HTTPError):
        client.get(PODS)
    assert client.get(PODS).json()["kind"] == "PodList"
    assert client.get("/api/v1/nodes").status_code == 200


def test_a_watch_expires(proxied: tuple[FaultProxy, httpx.Client]) -> None:
    proxy, client = proxied
    with client.stream("GET", PODS, params={"watch": "1"}) as watch:
        wait_for(proxy.expire_watches, "the watch did not begin")
        last = list(watch.iter_lines())[-1]
    assert json.loads(last)["object"]["code"] == 410


def test_a_watch_is_cut(proxied: tuple[FaultProxy, httpx.Client]) -> None:
    proxy, client = proxied
    with client.stream("GET", PODS, params={"watch": "1"}) as watch:
        assert watch.status_code == 200
        wait_for(proxy.cut_watches, "the watch did not begin")
        with pytest.raises(httpx.HTTPError):
            list(watch.iter_lines())
