"""Metrics of a worker, as Prometheus reads them."""

from pathlib import Path

import httpx
import pytest

from tests.support.postgres import PostgresCluster, free_port
from tests.support.promql import samples
from tests.support.service import StartService, StartWorker, connected, wait_until


def scrape(address: str) -> dict[tuple[str, ...], float]:
    return samples(httpx.get(f"http://{address}/metrics").text)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_exports_health_slots_and_lost_leases(
    start: StartService,
    start_worker: StartWorker,
    stoppable_postgres: PostgresCluster,
    tmp_path: Path,
) -> None:
    of_serve, of_worker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    serve = start("serve", AGENTJOBS_METRICS_BIND=of_serve)
    worker = start_worker(serve, AGENTJOBS_SLOTS="3", AGENTJOBS_METRICS_BIND=of_worker)
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

    other = worker.try_admin(*worker.command)
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
