"""Several `serve` over one store: each does its part, and none disturbs the others."""

import json
from pathlib import Path

import httpx
import pytest

from tests.support.service import Service, StartService, git, sample_repository, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def _push_url(service: Service, key: str) -> str:
    return service.root_url.replace("http://", f"http://key:{key}@") + "/git/default/acme/shop.git"


def _commit(clone: Path, name: str) -> str:
    (clone / name).write_text("new\n")
    git(clone, "add", "-A")
    git(clone, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", name)
    return git(clone, "rev-parse", "HEAD").strip()


def test_two_serves_with_one_directory_take_pushes_to_one_repository(
    start: StartService, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    shared = {"AGENTJOBS_REPOSITORIES_DIR": str(tmp_path / "shared")}
    first = start("serve", data_dir="first", **shared)
    second = start("serve", data_dir="second", **shared)
    second.connect(sample_repository(tmp_path / "source"), "acme/shop")
    key = first.key("--git-write")
    api = first.client(key)
    api.wait_ready("acme/shop")
    git(tmp_path, "clone", "--quiet", _push_url(first, key), "clone")
    for number, service in enumerate((first, second, first, second)):
        commit = _commit(tmp_path / "clone", f"{number}.txt")
        git(tmp_path / "clone", "push", "--quiet", _push_url(service, key), "main")

    def is_indexed() -> bool:
        (repo,) = api.http.get("/repos").json()["repos"]
        return bool(repo["indexed_commit"] == commit)

    wait_until(is_indexed, "the last push to be indexed")
    findings = json.loads(first.admin("doctor", "--json"))["findings"]
    serves = [each["message"] for each in findings if each["subject"] == "processes"]
    assert len(serves) == 2
    assert second.stop() == first.stop() == 0


def test_a_serve_without_the_directory_says_so_and_serves_everything_else(
    start: StartService, tmp_path: Path
) -> None:
    first = start("serve", data_dir="first")
    without = start("serve", data_dir="without")
    assert "this process serves and indexes no repositories" in without.log()
    key = first.key("--git-write")
    for number in range(3):
        first.connect(sample_repository(tmp_path / f"source-{number}"), f"acme/shop-{number}")
        # The one that could not read the repository never claims it, so no index fails.
        repo = without.client(key).wait_ready(f"acme/shop-{number}")
        assert repo["index_error"] is None
    refused = httpx.get(
        f"{without.root_url}/git/default/acme/shop-0.git/info/refs?service=git-upload-pack",
        auth=("key", key),
    )
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "unavailable"
    assert str(tmp_path) not in refused.text
    rejected = without.try_admin("repos", "connect", str(tmp_path / "source-0"), "--name", "a/b")
    assert rejected.returncode != 0
    assert "AGENTJOBS_REPOSITORIES_DIR" in rejected.stderr
    doctor = without.try_admin("doctor", "--json")
    assert "serves no repositories" in doctor.stdout
    assert without.stop() == first.stop() == 0
