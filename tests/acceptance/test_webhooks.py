"""Deliveries of a running service, and the webhook commands of the command line."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.support.postgres import PostgresCluster
from tests.support.receiver import Received, Receiver, receiver
from tests.support.service import Service, sample_repository, wait_until, worker_beside
from tests.support.webhook_service import (
    QUICK,
    REPO,
    SHARED,
    Endpoint,
    WebhookHarness,
    body_signature,
    open_harness,
    outcomes,
    running,
)

FIELDS = ["event", "job_id", "repo", "pr_url", "timestamp"]
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
COMPLETED = ["job.queued", "job.started", "job.completed", "pr.review_requested"]
FAILED = ["job.queued", "job.started", "job.failed"]

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

NewReceiver = Callable[[], Receiver]


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookHarness]:
    """`agentjobs up` with defaults, except for short retries."""
    home = tmp_path_factory.mktemp("laptop")
    with running(Service(home / "data", QUICK)) as service:
        yield open_harness(service, home)


@pytest.fixture(scope="module")
def company(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_cluster: PostgresCluster,
    postgres_template: str,
) -> Iterator[WebhookHarness]:
    """`serve` and `worker` on PostgreSQL, both of which send."""
    home = tmp_path_factory.mktemp("company")
    url = postgres_cluster.url(postgres_cluster.create_database(postgres_template))
    environment = {"AGENTJOBS_DATABASE_URL": url, **QUICK, **SHARED}
    with (
        running(Service(home / "serve", environment, ("serve",))) as serve,
        running(worker_beside(serve, home / "worker", **environment)),
    ):
        yield open_harness(serve, home)


@pytest.fixture(params=["laptop", "company"])
def harness(request: pytest.FixtureRequest) -> WebhookHarness:
    """The test runs once on each store."""
    harness: WebhookHarness = request.getfixturevalue(request.param)
    return harness


@pytest.fixture(scope="module")
def new_receiver() -> Iterator[NewReceiver]:
    """Receivers keep their ports until the end, so that no test gets deliveries of another."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(receiver())


@pytest.fixture
def receiving(new_receiver: NewReceiver) -> Receiver:
    return new_receiver()


@pytest.fixture
def witness(new_receiver: NewReceiver) -> Receiver:
    """A second receiver."""
    return new_receiver()


def wait_for_events(receiving: Receiver, job_id: str, expected: list[str]) -> list[Received]:
    """Wait for the job's requests; their events are exactly `expected`, in this order."""
    wait_until(lambda: len(receiving.events_of(job_id)) >= len(expected), f"{expected} of {job_id}")
    arrived = [delivery for delivery in receiving.received if delivery.job_id == job_id]
    assert [delivery.event for delivery in arrived] == expected
    return arrived


def wait_for_job(harness: WebhookHarness, receiving: Receiver) -> Received:
    """The first delivery of a new job."""
    (first, *_) = wait_for_events(receiving, harness.api.create(REPO, "idle"), ["job.queued"])
    return first


def check_signed(delivery: Received, endpoint: Endpoint) -> None:
    assert delivery.headers.get_all("X-Service-Signature-256") == [
        body_signature(endpoint.secret, delivery)
    ]
    assert (
        Webhook(endpoint.secret).verify(delivery.body, dict(delivery.headers.items()))
        == delivery.payload
    )


def test_the_events_of_a_job_arrive_in_order_and_signed(
    harness: WebhookHarness, receiving: Receiver
) -> None:
    endpoint = harness.add(receiving.url)
    job = harness.api.finish(REPO, "edit")
    assert job["status"] == "completed", job
    arrived = wait_for_events(receiving, job["job_id"], COMPLETED)
    assert [delivery.sequence for delivery in arrived] == [1, 2, 3, 4]
    assert [delivery.payload["pr_url"] for delivery in arrived] == [
        None,
        None,
        job["pr_url"],
        job["pr_url"],
    ]
    for delivery in arrived:
        assert list(delivery.payload) == FIELDS
        assert (delivery.job_id, delivery.payload["repo"]) == (job["job_id"], REPO)
        assert TIMESTAMP.fullmatch(delivery.payload["timestamp"])
        assert delivery.headers["X-Service-Event"] == delivery.event
        assert delivery.headers["Content-Type"] == "application/json"
        assert delivery.headers["webhook-id"].startswith("evt_")
        assert "X-Service-Signature-256-Next" not in delivery.headers
        check_signed(delivery, endpoint)
    logged = harness.settled("--job", job["job_id"], "--endpoint", endpoint.id)
    assert [delivery["id"] for delivery in logged] == [
        delivery.headers["X-Service-Delivery"] for delivery in arrived
    ]
    assert [delivery["event"] for delivery in logged] == COMPLETED
    assert [outcomes(delivery) for delivery in logged] == [[204]] * 4
    assert {delivery["endpoint"] for delivery in logged} == {endpoint.id}
    assert {delivery["attempts"][0]["address"] for delivery in logged} == {
        f"127.0.0.1:{receiving.port}"
    }


def test_jobs_without_a_pull_request_end_with_job_failed(
    harness: WebhookHarness, receiving: Receiver
) -> None:
    harness.add(receiving.url)
    crashed = harness.api.finish(REPO, "crash")["job_id"]
    cancelled = harness.api.create(REPO, "sleepy")
    harness.api.wait_status(cancelled, "running")
    harness.api.http.post(f"/jobs/{cancelled}/cancel")
    for job_id in (crashed, cancelled):
        arrived = wait_for_events(receiving, job_id, FAILED)
        assert [delivery.sequence for delivery in arrived] == [1, 2, 3]
        assert {delivery.payload["pr_url"] for delivery in arrived} == {None}


def test_review_of_a_draft_is_requested_once_it_is_marked_ready(
    harness: WebhookHarness, receiving: Receiver
) -> None:
    harness.add(receiving.url)
    job = harness.api.finish(REPO, "edit", config_override={"draft": True})
    wait_for_events(receiving, job["job_id"], COMPLETED[:3])
    assert harness.api.events(job["job_id"]) == COMPLETED[:3]
    for _ in range(2):
        harness.service.admin("pulls", "ready", REPO, str(job["pr_number"]))
    last = wait_for_events(receiving, job["job_id"], COMPLETED)[-1]
    assert (last.sequence, last.payload["pr_url"]) == (4, job["pr_url"])


def test_each_endpoint_receives_the_events_it_subscribed_to(
    laptop: WebhookHarness, receiving: Receiver, witness: Receiver
) -> None:
    events = ["job.queued", "pr.review_requested"]
    everything = laptop.add(receiving.url)
    some = laptop.add(witness.url, "--events", ",".join(events))
    job_id = laptop.api.finish(REPO, "edit")["job_id"]
    to_all = wait_for_events(receiving, job_id, COMPLETED)
    to_some = wait_for_events(witness, job_id, events)
    for endpoint, arrived in ((everything, to_all), (some, to_some)):
        for delivery in arrived:
            check_signed(delivery, endpoint)
    # Both have the same event, but different deliveries.
    assert to_all[0].headers["webhook-id"] == to_some[0].headers["webhook-id"]
    assert to_all[0].body == to_some[0].body
    assert to_all[0].headers["X-Service-Delivery"] != to_some[0].headers["X-Service-Delivery"]


def test_events_of_another_organization_are_not_sent(
    laptop: WebhookHarness, receiving: Receiver, witness: Receiver, tmp_path: Path
) -> None:
    service = laptop.service
    service.admin("orgs", "create", "rival")
    service.connect(sample_repository(tmp_path / "source"), REPO, "rival")
    rival = service.client(service.key("--org", "rival"))
    rival.wait_ready(REPO)
    endpoint = laptop.add(receiving.url)
    laptop.add(witness.url, "--org", "rival")
    of_rival = rival.finish(REPO, "idle")["job_id"]
    of_us = laptop.api.finish(REPO, "idle")["job_id"]
    wait_for_events(witness, of_rival, FAILED)
    wait_for_events(receiving, of_us, FAILED)
    assert {delivery.job_id for delivery in witness.received} == {of_rival}
    assert receiving.events_of(of_rival) == []
    assert laptop.deliveries("--job", of_rival) == []
    assert len(laptop.deliveries("--job", of_rival, "--org", "rival")) == 3
    result = service.try_admin("webhooks", "disable", endpoint.id, "--org", "rival")
    assert result.returncode != 0
    assert "has no endpoint" in result.stderr


def test_an_endpoint_is_disabled_enabled_and_removed_while_the_service_runs(
    laptop: WebhookHarness, receiving: Receiver, witness: Receiver
) -> None:
    endpoint = laptop.add(receiving.url, "--events", "job.queued")
    laptop.add(witness.url, "--events", "job.queued")
    job_ids = [wait_for_job(laptop, receiving).job_id]
    laptop.webhooks("disable", endpoint.url)
    wait_for_job(laptop, witness)
    laptop.webhooks("enable", endpoint.id)
    job_ids.append(wait_for_job(laptop, receiving).job_id)
    laptop.webhooks("remove", endpoint.id)
    wait_for_job(laptop, witness)
    logged = laptop.deliveries("--endpoint", endpoint.id)
    assert [delivery["job_id"] for delivery in logged] == job_ids
    assert [delivery.job_id for delivery in receiving.received] == job_ids
    assert endpoint.id not in laptop.webhooks("list")


def test_a_secret_is_rotated_without_downtime(laptop: WebhookHarness, receiving: Receiver) -> None:
    old = laptop.add(receiving.url, "--events", "job.queued")
    new = Endpoint(old.id, laptop.webhooks("rotate-secret", old.id).strip(), old.url)
    assert new.secret != old.secret
    between = wait_for_job(laptop, receiving)
    check_signed(between, old)
    following = between.headers.get_all("X-Service-Signature-256-Next")
    assert following == [body_signature(new.secret, between)]
    assert Webhook(new.secret).verify(between.body, dict(between.headers.items()))
    laptop.webhooks("promote-secret", old.id)
    after = wait_for_job(laptop, receiving)
    check_signed(after, new)
    assert "X-Service-Signature-256-Next" not in after.headers
    assert " " not in after.headers["webhook-signature"]


def test_a_failed_delivery_is_redelivered_with_the_same_id(
    laptop: WebhookHarness, receiving: Receiver
) -> None:
    endpoint = laptop.add(receiving.url, "--events", "job.queued")
    receiving.respond = lambda _: 503
    jobs = [laptop.api.create(REPO, "idle") for _ in range(2)]
    failed = laptop.settled("--endpoint", endpoint.id)
    assert [outcomes(delivery) for delivery in failed] == [["http_status"] * 4] * 2
    receiving.respond = lambda _: 200
    laptop.webhooks("redeliver", failed[0]["id"])
    (first,) = laptop.settled("--job", failed[0]["job_id"], "--endpoint", endpoint.id)
    assert (first["status"], first["id"]) == ("delivered", failed[0]["id"])
    laptop.webhooks("redeliver", "--failed-since", "1h", "--endpoint", endpoint.id)
    both = laptop.settled("--endpoint", endpoint.id)
    assert [outcomes(delivery) for delivery in both] == [["http_status"] * 4 + [200]] * 2
    for job_id in jobs:
        arrived = [delivery for delivery in receiving.received if delivery.job_id == job_id]
        assert len(arrived) == 5
        assert len({delivery.headers["webhook-id"] for delivery in arrived}) == 1
        assert len({delivery.headers["X-Service-Delivery"] for delivery in arrived}) == 1
        assert len({delivery.body for delivery in arrived}) == 1


def test_a_ping_is_signed_like_every_delivery(laptop: WebhookHarness, receiving: Receiver) -> None:
    endpoint = laptop.add(receiving.url, "--events", "job.queued")
    pinged = json.loads(laptop.webhooks("test", endpoint.id, "--json"))
    (delivery,) = receiving.received
    assert delivery.event == delivery.headers["X-Service-Event"] == "ping"
    assert list(delivery.payload) == FIELDS
    assert pinged["id"] == delivery.headers["X-Service-Delivery"]
    assert (pinged["succeeded"], pinged["status_code"]) == (True, 204)
    check_signed(delivery, endpoint)


def test_the_trace_of_a_request_is_handed_on_to_receivers(
    laptop: WebhookHarness, receiving: Receiver
) -> None:
    """Without OpenTelemetry, too. A malformed header is ignored, as its specification says."""
    laptop.add(receiving.url, "--events", "job.queued")
    malformed = ([], [TRACEPARENT.upper()], [TRACEPARENT] * 2, [f"{TRACEPARENT}\x80{'x' * 8_000}"])
    for values in ([TRACEPARENT], *malformed):
        response = laptop.api.http.post(
            "/jobs",
            json={"repo": REPO, "agent": "idle"},
            headers=[("traceparent", value.encode("latin-1")) for value in values],
        )
        assert response.status_code == 202, response.text
        job_id = response.json()["job_id"]
        wait_until(lambda job_id=job_id: receiving.events_of(job_id), "the event")
        (request,) = [each for each in receiving.received if each.job_id == job_id]
        handed_on = None if values in malformed else [TRACEPARENT]
        assert request.headers.get_all("traceparent") == handed_on
