"""A part of the service is away: work that is done is neither lost nor done twice."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_crashes import agents_alive
from tests.support.postgres import PostgresCluster
from tests.support.service import (
    Api,
    StartService,
    StartWorker,
    connected,
    pull_requests,
    wait_until,
)

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
PROGRESS = ("job.started", "job.completed", "pr.review_requested")


def check_completed_once(api: Api, job_id: str) -> dict[str, Any]:
    """The agent ran once, and the only thing that may have happened twice is to be queued."""
    job = api.wait_status(job_id, "completed", "failed", "cancelled")
    assert (job["status"], job["attempt"]) == ("completed", 1), job
    assert api.log(job_id).count("the agent runs") == 1
    assert [event for event in api.events(job_id) if event != "job.queued"] == [
        event for event in PROGRESS if job["pr_url"] or event != "pr.review_requested"
    ]
    return job


def test_work_finished_while_serve_is_away_is_published_without_another_run(
    start: StartService, start_worker: StartWorker, tmp_path: Path, short_seconds: str
) -> None:
    serve = start("serve", AGENTJOBS_LEASE_SECONDS="30")
    worker = start_worker(serve, AGENTJOBS_LEASE_SECONDS="30")
    api = connected(serve, tmp_path)
    job_id = api.create("acme/shop", "two-seconds")
    api.wait_status(job_id, "running")
    assert serve.stop() == 0
    wait_until(lambda: not agents_alive(short_seconds), "the agent to end")
    serve.port = int(serve.root_url.rpartition(":")[2])
    serve.start()
    api = serve.client(serve.key())
    check_completed_once(api, job_id)
    assert pull_requests(serve) == 1
    assert worker.stop() == 0
    assert serve.stop() == 0


def test_work_finished_while_the_database_is_away_is_published_without_another_run(
    start: StartService, stoppable_postgres: PostgresCluster, tmp_path: Path, short_seconds: str
) -> None:
    service = start(AGENTJOBS_LEASE_SECONDS="10")
    api = connected(service, tmp_path)
    job_ids = [api.create("acme/shop", name) for name in ("two-seconds", "two-second-report")]
    for job_id in job_ids:
        api.wait_status(job_id, "running")
    stoppable_postgres.stop()
    wait_until(lambda: not agents_alive(short_seconds), "the agents to end")
    wait_until(lambda: api.http.get("/agents").status_code == 503, "the outage to be noticed")
    stoppable_postgres.start()
    change, report = [check_completed_once(api, job_id) for job_id in job_ids]
    assert (change["pr_number"], report["pr_number"]) == (1, None)
    assert report["report_markdown"] == "All is well.\n"
    assert service.stop() == 0


def test_a_database_that_hangs_fails_no_job_even_without_retries(
    start: StartService, stoppable_postgres: PostgresCluster, tmp_path: Path
) -> None:
    service = start(AGENTJOBS_LOST_WORKER_RETRIES="0")
    # Every process looks for lost workers.
    serves = [start("serve", data_dir=f"serve-{number}") for number in range(2)]
    api = connected(service, tmp_path)
    job_id = api.create("acme/shop", "two-seconds")
    api.wait_status(job_id, "running")
    with stoppable_postgres.frozen():
        frozen_at = time.monotonic()
        wait_until(lambda: time.monotonic() > frozen_at + 5, "the outage to outlast the lease")
    job = api.wait_status(job_id, "completed", "failed")
    assert job["status"] == "completed", job
    for running in (service, *serves):
        assert running.stop() == 0
