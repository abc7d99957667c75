"""`repos disconnect --purge` removes the files of a repository on every machine, and no others."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from agentjobs_worker.environments.snapshots import Snapshot
from tests.support.service import StartService, sample_repository, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def test_a_purge_removes_the_files_of_a_repository_on_every_machine(
    start: StartService, tmp_path: Path
) -> None:
    serve = start("serve", data_dir="serve")
    public = {"AGENTJOBS_PUBLIC_URL": serve.root_url}
    one = start("worker", data_dir="one", **public)
    api = serve.client(serve.key())
    for name in ("acme/shop", "acme/other"):
        serve.connect(sample_repository(tmp_path / name), name)
        api.wait_ready(name)
        assert api.finish(name, "quick")["status"] == "completed"
    two = start("worker", data_dir="two", AGENTJOBS_WORKER_TAGS="two", **public)
    serve.admin("repos", "set", "acme/shop", "--tags", "two")
    running = api.create("acme/shop", "sleepy")
    api.wait_status(running, "running")
    ids = {repo["full_name"]: repo["id"] for repo in api.http.get("/repos").json()["repos"]}
    shop, other = ids["acme/shop"], ids["acme/other"]
    for worker in (one, two):
        _add_snapshot(worker.data_dir, shop)
        # As if a job had used it a while ago: until then, another may be about to.
        os.utime(worker.data_dir / "mirrors" / f"{shop}.git", (0, 0))
    _add_snapshot(one.data_dir, other)

    refused = serve.try_admin("repos", "disconnect", "acme/shop", "--purge")
    assert refused.returncode == 2
    assert "confirm it with --yes" in refused.stderr
    elsewhere = one.try_admin("repos", "disconnect", "acme/shop", "--purge", "--yes")
    assert elsewhere.returncode != 0
    assert "AGENTJOBS_REPOSITORIES_DIR" in elsewhere.stderr
    assert len(api.http.get("/repos").json()["repos"]) == 2

    purge = ("repos", "disconnect", "acme/shop", "--purge", "--yes", "--json")
    purged = json.loads(serve.admin(*purge))
    assert purged["full_name"] == "acme/shop"
    # The service has a mirror, too, because it publishes.
    directories = [serve.data_dir / name for name in ("git", "mirrors")]
    assert purged["removed"] == [str(directory / f"{shop}.git") for directory in directories]
    assert api.job(running)["status"] == "cancelled"
    wait_until(lambda: not _files_of(tmp_path, shop), "every machine to remove the files")
    assert _files_of(one.data_dir, other)
    assert _files_of(serve.data_dir, other)
    assert api.finish("acme/other", "quick")["status"] == "completed"

    assert json.loads(serve.admin(*purge))["removed"] == []
    unknown = serve.try_admin("repos", "disconnect", "acme/nothing", "--purge", "--yes")
    assert unknown.returncode != 0
    assert "never was" in unknown.stderr
    assert serve.stop() == one.stop() == two.stop() == 0


def _add_snapshot(data_dir: Path, repo_id: str) -> None:
    directory = data_dir / "environments" / "snapshots" / repo_id / "build_1"
    (directory / "home").mkdir(parents=True)
    (directory / "home" / "file").write_text("content")
    snapshot = Snapshot(
        build_id="build_1",
        organization_id="org_1",
        repo_id=repo_id,
        request_key="1",
        key="1",
        images={},
        owner_uid=None,
        size_bytes=7,
        created_at=0,
    )
    (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot))


def _files_of(directory: Path, repo_id: str) -> list[Path]:
    """Without the files with which a worker serializes fetches: they are empty."""
    return [path for path in directory.rglob(f"*{repo_id}*") if path.suffix != ".lock"]
