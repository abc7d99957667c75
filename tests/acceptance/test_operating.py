"""Pausing, draining a worker and deleting an organization, beside a running service."""

import json
from pathlib import Path

from tests.support.service import Service, connected, sample_repository, wait_until


def test_operators_pause_drain_and_delete_beside_a_running_service(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", {"AGENTJOBS_WORKER_TAGS": "gpu"}).start()
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

    service.admin("orgs", "create", "doomed")
    repository = sample_repository(tmp_path / "theirs")
    service.connect(repository, "doomed/shop", "doomed")
    doomed = service.client(service.key("--org", "doomed"))
    repo_id = doomed.wait_ready("doomed/shop")["id"]
    assert doomed.finish("doomed/shop", "lint-fixer")["status"] == "completed"
    assert files_named(service.data_dir, repo_id) != []
    service.admin("orgs", "delete", "doomed", "--yes")
    assert files_named(service.data_dir, repo_id) == []
    wait_until(lambda: doomed.http.get("/repos").status_code == 401, "its key to be refused")
    assert api.finish("acme/shop", "premium")["error"]["code"] == "no_changes"
    assert service.stop() == 0


def files_named(directory: Path, text: str) -> list[Path]:
    return [path for path in directory.rglob("*") if text in path.name]
