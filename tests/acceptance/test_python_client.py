"""The Python client against a running service, and a FastAPI receiver of its webhooks."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from agentjobs_client import (
    AsyncClient,
    Client,
    InsufficientScope,
    Job,
    JobFinished,
    JobNotFinished,
    JobNotFound,
    JobStatus,
    PullChanged,
    PullNotOpen,
    RepoNotFound,
    Unauthorized,
    ValidationFailed,
    WaitTimeout,
    WebhookEvent,
)
from agentjobs_client.frameworks.starlette import read_webhook
from tests.support.service import Api, Service, sample_repository, wait_until

REPO = "acme/shop"
LABELS = {"team": "web", "suite": "python-client"}


@pytest.fixture
def client(service: Service, key: str, api: Api) -> Iterator[Client]:
    with Client(service.base_url, key) as client:
        yield client


@pytest.fixture(scope="module")
def job(service: Service, key: str, api: Api) -> Job:
    """A completed job with labels."""
    with Client(service.base_url, key) as client:
        receipt = client.create_job(REPO, "edit", ticket_id="SHOP-9", labels=LABELS)
        return client.wait(receipt.job_id)


def test_a_job_is_created_waited_for_and_read(client: Client, job: Job) -> None:
    assert job.is_completed, job
    assert job.labels == LABELS
    assert job.elapsed is not None
    assert job.created_at is not None
    assert abs(datetime.now(UTC) - job.created_at) < timedelta(hours=1)
    assert client.job(job.job_id).raw["created_at"].endswith("Z")
    assert "editing" in "".join(client.logs(job.job_id))
    assert "editing" in "".join(client.logs(job.job_id, follow=True))
    assert [event.event for event in client.events_of(job.job_id)][:2] == [
        "job.queued",
        "job.started",
    ]
    assert client.artifacts(job.job_id) == []
    assert list(client.steps(job.job_id)) == []


def test_the_diff_of_a_job_is_text_or_files(client: Client, job: Job) -> None:
    assert "+changed" in client.diff(job.job_id)
    diff = client.diff_files(job.job_id)
    assert [(file.path, file.status, file.additions) for file in diff.files] == [
        ("edited.txt", "added", 1)
    ]
    assert diff.head_commit == job.head_commit


def test_jobs_are_found_by_their_labels_and_times(client: Client, job: Job) -> None:
    assert job.created_at is not None
    found = client.jobs(
        labels=LABELS,
        ticket_id="SHOP-9",
        status=[JobStatus.COMPLETED, JobStatus.FAILED],
        created_after=job.created_at,
        created_before=job.created_at + timedelta(seconds=1),
    )
    assert [each.job_id for each in found] == [job.job_id]
    assert list(client.jobs(labels={"team": "other"})) == []


def test_a_job_that_does_not_finish_in_time_goes_on_and_can_be_cancelled(client: Client) -> None:
    receipt = client.create_job(REPO, "sleepy")
    with pytest.raises(WaitTimeout) as caught:
        client.wait(receipt.job_id, timeout=0.5)
    assert not caught.value.job.is_finished
    with pytest.raises(JobNotFinished):
        client.retry(receipt.job_id)
    client.cancel(receipt.job_id)
    assert client.wait(receipt.job_id).status == JobStatus.CANCELLED
    with pytest.raises(JobFinished):
        client.cancel(receipt.job_id)
    again = client.retry(receipt.job_id, labels={"attempt": "2"})
    client.cancel(again.job_id)
    assert client.wait(again.job_id).labels == {"attempt": "2"}


def test_agents_repositories_caller_and_usage_are_read(client: Client, job: Job) -> None:
    assert "edit" in [agent.id for agent in client.agents()]
    assert client.agent("edit").config_override_schema is not None
    shop = client.repo(REPO)
    assert shop.accepts_jobs
    assert client.repo(shop.id) == shop
    assert shop in client.repos()
    assert list(client.dependencies(shop.id)) == []
    assert client.me().organization.name == "default"
    report = client.usage(since=job.created_at, group_by="agent")
    assert report.total.jobs.completed >= 1
    assert "edit" in [group.key for group in report.groups]


def test_a_pull_request_is_found_and_merged(
    service: Service, client: Client, api: Api, tmp_path: Path
) -> None:
    # A repository of its own: other tests rely on the content of the shared one.
    repo = "acme/merged"
    service.connect(sample_repository(tmp_path / "merged"), repo)
    api.wait_ready(repo)
    job = client.wait(client.create_job(repo, "edit").job_id)
    (pull,) = client.pulls(job_id=job.job_id)
    assert list(client.pulls(repo=repo, state="open")) == [pull]
    assert pull == client.pull(pull.id)
    assert (pull.url, pull.head_commit) == (job.pr_url, job.head_commit)
    with pytest.raises(InsufficientScope):
        client.merge_pull(pull.id)
    with Client(service.base_url, service.key("--pulls")) as merger:
        with pytest.raises(PullChanged):
            merger.merge_pull(pull.id, head_commit="0" * 40)
        merged = merger.merge_pull(pull.id, method="squash", head_commit=pull.head_commit)
        assert merged.state == "merged"
        assert merged.merged_at is not None
        with pytest.raises(PullNotOpen):
            merger.close_pull(pull.id)


def test_events_continue_from_a_cursor(client: Client, job: Job) -> None:
    (*_, last) = client.event_pages()
    assert job.job_id in [event.job_id for event in client.events()]
    receipt = client.create_job(REPO, "idle")
    for page in client.event_pages(cursor=last.next_cursor, follow=True):
        if receipt.job_id in [event.job_id for event in page.events]:
            break
    client.wait(receipt.job_id)


def test_both_clients_read_the_same(service: Service, key: str, client: Client, job: Job) -> None:
    async def read() -> tuple[Job, str, list[str]]:
        async with AsyncClient(service.base_url, key) as asynchronous:
            log = [text async for text in asynchronous.logs(job.job_id, follow=True)]
            listed = [each.job_id async for each in asynchronous.jobs(labels=LABELS)]
            return await asynchronous.wait(job.job_id), "".join(log), listed

    assert asyncio.run(read()) == (
        client.job(job.job_id),
        "".join(client.logs(job.job_id)),
        [job.job_id],
    )


def test_keys_of_others_and_old_keys_get_their_own_exceptions(
    service: Service, client: Client, job: Job
) -> None:
    service.admin("orgs", "create", "strangers")
    with Client(service.base_url, service.key("--org", "strangers")) as stranger:
        for call in (stranger.job, stranger.wait, stranger.diff, stranger.artifacts):
            with pytest.raises(JobNotFound):
                call(job.job_id)
        with pytest.raises(JobNotFound):
            list(stranger.steps(job.job_id))
        with pytest.raises(RepoNotFound):
            stranger.repo(REPO)
        assert list(stranger.events()) == []
        cursor = list(client.event_pages())[-1].next_cursor
        with pytest.raises(ValidationFailed, match="cursor"):
            list(stranger.events(cursor=cursor))
    with (
        Client(service.base_url, service.key("--scope", "read")) as reader,
        pytest.raises(InsufficientScope),
    ):
        reader.create_job(REPO, "idle")
    with Client(service.base_url, "ajk_unknown") as unknown, pytest.raises(Unauthorized):
        unknown.me()


@contextmanager
def fastapi_receiver(secrets: list[str], received: list[WebhookEvent]) -> Iterator[str]:
    app = FastAPI()

    @app.post("/hook")
    async def receive(request: Request) -> Response:
        received.append(await read_webhook(request, secrets))
        return Response(status_code=204)

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_a_fastapi_application_receives_the_events_of_a_job(
    service: Service, client: Client
) -> None:
    received: list[WebhookEvent] = []
    secrets: list[str] = []
    with fastapi_receiver(secrets, received) as url:
        secrets.append(service.admin("webhooks", "add", url).strip())
        job = client.wait(client.create_job(REPO, "edit").job_id)
        wait_until(lambda: len(received) >= 4, "four deliveries")
        service.admin("webhooks", "remove", url)
    events = {event.sequence: event for event in received if event.job_id == job.job_id}
    assert [events[number].event for number in sorted(events)][:4] == [
        *("job.queued", "job.started", "job.completed", "pr.review_requested")
    ]
    assert events[3].pr_url == job.pr_url
