"""Each alert fires, alone, when its condition is true in a real service."""

import os
import signal
import time
from pathlib import Path

from agentjobs_runtime.clock import SECOND_MS, now_ms
from tests.alerts.deployment import Deployment
from tests.alerts.promtool import Scrape, check_firing
from tests.support.promql import samples
from tests.support.receiver import receiver
from tests.support.service import Service, wait_until
from tests.support.webhook_service import add_endpoint

HOUR_MS = 3600 * SECOND_MS
STOPS = 8
STOPPED_SECONDS = 0.5


def value(deployment: Deployment, process: str, *name: str) -> float | None:
    text = deployment.scrape()[process]
    return None if text is None else samples(text).get(name)


def check(deployment: Deployment, before: Scrape, *expected: str) -> None:
    alerts = {f"Agentjobs{name}" for name in expected}
    check_firing(before, deployment.scrape(), alerts, deployment.directory)


def test_nothing_fires_in_a_healthy_service(deployment: Deployment) -> None:
    api = deployment.start_both()
    before = deployment.scrape()
    with receiver() as receiving:
        add_endpoint(deployment.services["serve"], receiving.url)
        assert api.finish("acme/shop", "edit")["status"] == "completed"
        wait_until(lambda: len(receiving.received) >= 4, "deliveries")
    check(deployment, before)


def test_a_process_that_does_not_respond(deployment: Deployment) -> None:
    deployment.start_both()
    other = deployment.start("worker", name="other")
    ready = ("agentjobs_workers", "ready")
    wait_until(lambda: value(deployment, "serve", *ready) == 2, "both workers")
    before = deployment.scrape()
    other.kill()
    check(deployment, before, "Down")


def test_a_store_that_does_not_respond(deployment: Deployment) -> None:
    deployment.start_both()
    before = deployment.scrape()
    deployment.postgres.stop()
    check(deployment, before, "StoreUnavailable")


def test_a_service_without_workers(deployment: Deployment) -> None:
    deployment.start("serve")
    check(deployment, deployment.scrape(), "NoWorker")


def test_a_job_that_no_worker_runs(deployment: Deployment) -> None:
    api = deployment.start_both()
    api.create("acme/shop", "gpu")
    before = deployment.scrape()
    deployment.change("UPDATE jobs SET queued_at = :at", at=now_ms() - HOUR_MS)
    check(deployment, before, "QueueStuck")
    # What waits in a service that is paused waits for the operator.
    deployment.services["serve"].admin("pause")
    check(deployment, before)


def test_webhooks_that_fail(deployment: Deployment) -> None:
    api = deployment.start_both()
    before = deployment.scrape()
    with receiver(lambda _: 500) as receiving:
        add_endpoint(deployment.services["serve"], receiving.url)
        assert api.finish("acme/shop", "edit")["status"] == "completed"
        wait_until(lambda: len(receiving.received) >= 4, "attempts")

        def are_counted() -> bool:
            failed = ("agentjobs_webhook_attempts_total", "http_status")
            counts = [value(deployment, name, *failed) for name in deployment.services]
            return sum(count or 0 for count in counts) >= 4

        wait_until(are_counted, "failed attempts")
        check(deployment, before, "DeliveriesFailing")


def test_webhooks_that_nobody_sends(deployment: Deployment) -> None:
    api = deployment.start_both(AGENTJOBS_SEND_WEBHOOKS="false")
    with receiver() as receiving:
        add_endpoint(deployment.services["serve"], receiving.url)
    before = deployment.scrape()
    api.create("acme/shop", "gpu")
    late = now_ms() - HOUR_MS
    deployment.change("UPDATE deliveries SET attempts = 1, failures = 1, due_at = :at", at=late)
    check(deployment, before, "DeliveriesLate")


def test_a_disk_that_is_nearly_full(deployment: Deployment) -> None:
    free_mib = _free_mib(deployment.directory)
    deployment.start("serve")
    deployment.start("worker", AGENTJOBS_DISK_FLOOR_MIB=str(free_mib * 3 // 4))
    check(deployment, deployment.scrape(), "DiskLow")


def test_leases_that_a_worker_could_not_renew(deployment: Deployment) -> None:
    api = deployment.start_both()
    api.wait_status(api.create("acme/shop", "sleepy"), "running")
    before = deployment.scrape()
    deployment.postgres.stop()
    lost = ("agentjobs_leases_lost_total",)
    wait_until(lambda: value(deployment, "worker", *lost) == 1, "the lease to be lost")
    deployment.postgres.start()
    available = ("agentjobs_store_up",)
    for name in deployment.services:
        wait_until(lambda name=name: value(deployment, name, *available) == 1, "the store")
    check(deployment, before, "LeasesLost")


def test_a_process_that_gets_no_cpu_time(deployment: Deployment) -> None:
    deployment.start_both()
    before = deployment.scrape()
    for _ in range(STOPS):
        _stop_for_a_moment(deployment.services["worker"])
    check(deployment, before, "LoopDelayed")


def _stop_for_a_moment(service: Service) -> None:
    service.signal(signal.SIGSTOP)
    wait_until(service.is_stopped, "the process to be stopped")
    # The delay itself is what is measured.
    time.sleep(STOPPED_SECONDS)
    service.signal(signal.SIGCONT)
    time.sleep(0.2)


def _free_mib(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize // 1024**2
