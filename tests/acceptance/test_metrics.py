"""Metrics on their own address, as Prometheus reads them."""

import socket
from pathlib import Path

import httpx
import pytest

from tests.support.postgres import PostgresCluster
from tests.support.service import Service, StartService, connected, wait_until
from tests.unit.web.test_health_and_metrics import samples


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def scrape(address: str) -> dict[tuple[str, ...], float]:
    return samples(httpx.get(f"http://{address}/metrics").text)


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
    lines = response.text.splitlines()
    finished = [line for line in lines if line.startswith("agentjobs_jobs_finished_total{")]
    assert finished == ['agentjobs_jobs_finished_total{code="no_changes",status="failed"} 1.0']
    # A process with a worker exports its metrics too.
    assert {"agentjobs_slots", "agentjobs_disk_free_bytes"} <= {
        line.partition("{")[0] for line in lines
    }
    assert httpx.get(f"http://{address}/v1/agents").status_code == 404
    assert api.http.get(f"{service.root_url}/metrics").status_code == 404
    assert service.stop() == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_exports_health_slots_and_lost_leases(
    start: StartService, stoppable_postgres: PostgresCluster, tmp_path: Path
) -> None:
    of_serve, of_worker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    serve = start("serve", AGENTJOBS_METRICS_BIND=of_serve)
    settings = {"AGENTJOBS_PUBLIC_URL": serve.root_url, "AGENTJOBS_METRICS_BIND": of_worker}
    worker = start("worker", data_dir="worker", AGENTJOBS_SLOTS="3", **settings)
    api = connected(serve, tmp_path)
    api.wait_status(api.create("acme/shop", "sleepy"), "running")
    exported = scrape(of_worker)
    assert exported["agentjobs_slots", "busy"] == 1
    assert exported["agentjobs_slots", "free"] == 2
    assert exported[("agentjobs_leases_lost_total",)] == 0
    assert exported[("agentjobs_event_loop_delay_seconds_count",)] > 0
    assert exported["agentjobs_disk_free_bytes", "data"] > 0
    assert exported["agentjobs_webhook_attempts_total", "success"] == 0
    # The queue is of the whole service: an API process exports it.
    assert ("agentjobs_queue_depth",) not in exported
    assert scrape(of_serve)[("agentjobs_queue_depth",)] == 0
    assert httpx.get(f"http://{of_worker}/readyz").status_code == 200

    other = worker.try_admin("worker")
    assert (other.returncode, "AGENTJOBS_METRICS_BIND" in other.stderr) == (2, True), other.stderr

    stoppable_postgres.stop()
    wait_until(lambda: scrape(of_worker)[("agentjobs_leases_lost_total",)] == 1, "a lost lease")
    exported = scrape(of_worker)
    assert exported[("agentjobs_lease_renewals_failed_total",)] > 0
    assert exported[("agentjobs_store_up",)] == 0
    assert httpx.get(f"http://{of_worker}/readyz").status_code == 503
    assert httpx.get(f"http://{of_worker}/healthz").status_code == 200
    assert ("agentjobs_queue_depth",) not in scrape(of_serve)

    stoppable_postgres.start()
    wait_until(lambda: ("agentjobs_queue_depth",) in scrape(of_serve), "the store to be back")
    assert worker.stop() == 0
