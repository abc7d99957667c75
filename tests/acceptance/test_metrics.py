"""Metrics on their own address, as Prometheus reads them."""

import socket
from pathlib import Path

import httpx

from tests.support.service import Service, StartService, connected


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_metrics_are_open_on_their_own_address_only(start: StartService, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    service: Service = start(AGENTJOBS_METRICS_BIND=address)
    api = connected(service, tmp_path)
    assert api.finish("acme/shop", "premium")["error"]["code"] == "no_changes"
    response = httpx.get(f"http://{address}/metrics")
    assert response.status_code == 200
    assert "agentjobs_http_requests_total" in response.text
    for name in ("queue_depth", "jobs_finished_total", "job_wait_seconds", "job_duration_seconds"):
        assert f"agentjobs_{name}" in response.text
    finished = [line for line in response.text.splitlines() if "jobs_finished_total{" in line]
    assert finished == ['agentjobs_jobs_finished_total{code="no_changes",status="failed"} 1.0']
    assert httpx.get(f"http://{address}/v1/agents").status_code == 404
    assert api.http.get(f"{service.root_url}/metrics").status_code == 404
    assert service.stop() == 0
