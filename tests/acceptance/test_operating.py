"""Pausing the service and draining a worker, beside a running service."""

import json
from pathlib import Path

from tests.support.service import StartService, connected, wait_until


def test_waiting_jobs_start_after_a_pause_and_after_a_drain(
    start: StartService, tmp_path: Path
) -> None:
    service = start(AGENTJOBS_WORKER_TAGS="gpu")
    api = connected(service, tmp_path)
    (worker,) = json.loads(service.admin("workers", "list", "--json"))["workers"]
    assert (worker["status"], worker["tags"]) == ("ready", ["gpu"])

    service.admin("pause")
    job = api.create("acme/shop", "lint-fixer")
    wait_until(lambda: api.job(job)["queue_reason"] == "paused", "the reason it waits")
    drained = json.loads(service.admin("workers", "drain", worker["id"], "--wait", "--json"))
    assert drained["status"] == "drained"
    service.admin("resume")
    wait_until(lambda: api.job(job)["queue_reason"] == "no_worker", "the next reason")
    service.admin("workers", "drain", worker["id"], "--undo")
    assert api.wait_status(job, "completed", "failed")["status"] == "completed"
    assert service.try_admin("workers", "remove", worker["id"]).returncode == 2
    assert service.stop() == 0
