"""Senders and stores that fail during a delivery: unconfirmed deliveries are sent again."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.receiver import Received, Receiver, receiver
from tests.support.service import Service, StartService, wait_until
from tests.support.webhook_service import (
    REPO,
    SHARED,
    WebhookHarness,
    open_harness,
    outcomes,
    running,
    settled,
)

# The shortest lease that these timeouts allow.
ONE_AT_A_TIME = {
    **SHARED,
    "AGENTJOBS_WEBHOOK_ENDPOINT_CONCURRENCY": "1",
    "AGENTJOBS_WEBHOOK_TIMEOUT_SECONDS": "3",
    "AGENTJOBS_WEBHOOK_CONNECT_SECONDS": "3",
    "AGENTJOBS_WEBHOOK_LEASE_SECONDS": "8",
}
LIFE_WITH_A_LOST_WORKER = [
    *("job.queued", "job.started", "job.queued", "job.started"),
    *("job.completed", "pr.review_requested"),
]


@contextmanager
def holding_receiver() -> Iterator[tuple[Receiver, threading.Event]]:
    """A receiver that responds only once the event is set."""
    may_respond = threading.Event()

    def hold(_: Received) -> int:
        may_respond.wait(60)
        return 204

    with receiver(hold) as holding:
        try:
            yield holding, may_respond
        finally:
            may_respond.set()


def queue_jobs(harness: WebhookHarness, number: int) -> list[str]:
    return [harness.api.create(REPO, "sleepy") for _ in range(number)]


def delivery_counts(receiving: Receiver) -> Counter[str]:
    """The number of requests by event ID."""
    return Counter(request.headers["webhook-id"] for request in receiving.received)


def check_only_the_first_was_sent_twice(receiving: Receiver, logged: list[dict[str, Any]]) -> None:
    """The first was interrupted; the log has only its final attempt."""
    counts = delivery_counts(receiving)
    assert counts.pop(receiving.received[0].headers["webhook-id"]) == 2
    assert list(counts.values()) == [1] * (len(logged) - 1)
    assert [outcomes(delivery) for delivery in logged] == [[204]] * len(logged)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_deliveries_of_a_killed_service_arrive_after_its_restart(
    start: StartService, tmp_path: Path
) -> None:
    service = start("serve", **ONE_AT_A_TIME)
    harness = open_harness(service, tmp_path)
    with holding_receiver() as (receiving, may_respond):
        harness.add(receiving.url)
        jobs = queue_jobs(harness, 3)
        receiving.wait_for(1)
        service.kill()
        assert len(receiving.received) == 1
        may_respond.set()
        restarted = start("serve", **ONE_AT_A_TIME)
        receiving.wait_for(4)
        logged = settled(restarted)
    assert sorted(delivery["job_id"] for delivery in logged) == sorted(jobs)
    check_only_the_first_was_sent_twice(receiving, logged)
    assert restarted.stop() == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_another_process_takes_over_the_deliveries_of_a_dead_one(
    start: StartService, tmp_path: Path
) -> None:
    serve = start("serve", AGENTJOBS_SEND_WEBHOOKS="false", **ONE_AT_A_TIME)
    harness = open_harness(serve, tmp_path)
    with holding_receiver() as (receiving, may_respond):
        harness.add(receiving.url, "--events", "job.queued")
        first = start("serve", data_dir="first", **ONE_AT_A_TIME)
        harness.api.create(REPO, "premium")
        receiving.wait_for(1)
        first.kill()
        may_respond.set()
        second = start("serve", data_dir="second", **ONE_AT_A_TIME)
        receiving.wait_for(2)
        logged = settled(serve)
    check_only_the_first_was_sent_twice(receiving, logged)
    assert second.stop() == 0
    assert serve.stop() == 0


def test_a_job_that_lost_its_worker_sends_queued_and_started_again(
    start: StartService, tmp_path: Path
) -> None:
    service = start(**SHARED)
    harness = open_harness(service, tmp_path)
    with receiver() as receiving:
        harness.add(receiving.url)
        job_id = harness.api.create(REPO, "slow-once")
        harness.api.wait_status(job_id, "running")
        assert len(harness.settled()) == 2
        service.kill()
        restarted = start(**SHARED)
        arrived = receiving.wait_for(6)
        assert restarted.stop() == 0
    assert [request.event for request in arrived] == LIFE_WITH_A_LOST_WORKER
    assert [request.sequence for request in arrived] == [1, 2, 3, 4, 5, 6]
    assert len(receiving.received) == 6


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_stopping_service_waits_briefly_for_responses_and_not_for_hanging_receivers(
    start: StartService, tmp_path: Path
) -> None:
    # The lease outlasts the test, so only released deliveries are sent again.
    environment = {**SHARED, "AGENTJOBS_DRAIN_GRACE_SECONDS": "2"}
    service = start("serve", **environment)
    harness = open_harness(service, tmp_path)
    with holding_receiver() as (slow, release_slow), holding_receiver() as (dead, revive):
        endpoints = [harness.add(target.url) for target in (slow, dead)]
        queue_jobs(harness, 1)
        for target in (slow, dead):
            target.wait_for(1)
        service.signal(signal.SIGTERM)
        release_slow.set()
        # A second signal would skip the grace period.
        wait_until(lambda: service.process and service.process.poll() is not None, "the end")
        assert service.stop() == 0
        left = {
            delivery["endpoint"]: (delivery["status"], outcomes(delivery))
            for delivery in harness.deliveries()
        }
        assert [left[each.id] for each in endpoints] == [("delivered", [204]), ("pending", [])]
        revive.set()
        restarted = start("serve", **environment)
        dead.wait_for(2, 20)
        assert [outcomes(delivery) for delivery in settled(restarted)] == [[204]] * 2
        assert list(delivery_counts(dead).values()) == [2]
        assert list(delivery_counts(slow).values()) == [1]
        assert restarted.stop() == 0


def test_results_are_recorded_once_the_store_is_back(
    stoppable_postgres: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    environment = {"AGENTJOBS_DATABASE_URL": postgres_url, **SHARED}
    with (
        running(Service(tmp_path / "data", environment, ("serve",))) as service,
        holding_receiver() as (receiving, may_respond),
    ):
        harness = open_harness(service, tmp_path)
        harness.add(receiving.url)
        jobs = queue_jobs(harness, 5)
        receiving.wait_for(5)
        stoppable_postgres.stop()
        may_respond.set()
        stoppable_postgres.start()
        logged = harness.settled()
        assert sorted(delivery["job_id"] for delivery in logged) == sorted(jobs)
        assert [outcomes(delivery) for delivery in logged] == [[204]] * 5
        # Nothing was sent twice, because the results were kept until the store was back.
        assert len(receiving.received) == 5
