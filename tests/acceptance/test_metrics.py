"""Metrics on their own address, as Prometheus reads them."""

import asyncio
import socket
from pathlib import Path

import httpx
import msgspec
import pytest

from agentjobs.jobs.model import Usage
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from tests.support.postgres import PostgresCluster
from tests.support.promql import (
    alert_rules,
    dashboard_queries,
    documented_metrics,
    exposition,
    own_metrics,
    samples,
    unknown_names,
)
from tests.support.service import Service, StartService, connected, wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def scrape(address: str) -> dict[tuple[str, ...], float]:
    return samples(httpx.get(f"http://{address}/metrics").text)


async def record_usage(database_url: str) -> None:
    """As the jobs of an agent that uses a model have it."""

    async def update(tx: Transaction) -> None:
        usage = Usage(input_tokens=9, output_tokens=1, cost_usd=0.1, requests=1)
        await tx.execute(
            "UPDATE jobs SET usage = :usage", usage=msgspec.json.encode(usage).decode()
        )

    db = await open_database(database_url, migrate=False)
    await db.transact(update)
    await db.close()


def check_names(text: str) -> None:
    """Alert rules, dashboard and documents name metrics and labels that exist."""
    existing = exposition(text)
    queries = [rule["expr"] for rule in alert_rules()] + dashboard_queries()
    unknown = {query: unknown_names(query, existing) for query in queries}
    assert {query: names for query, names in unknown.items() if names} == {}
    assert documented_metrics() == own_metrics(existing)


def test_metrics_are_open_on_their_own_address_only(
    start: StartService, database_url: str, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    service: Service = start(AGENTJOBS_METRICS_BIND=address)
    api = connected(service, tmp_path)
    assert api.finish("acme/shop", "premium")["error"]["code"] == "no_changes"
    asyncio.run(record_usage(database_url))
    response = httpx.get(f"http://{address}/metrics")
    assert response.status_code == 200
    check_names(response.text)
    assert samples(response.text)["agentjobs_jobs_finished_total", "no_changes", "failed"] == 1
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
