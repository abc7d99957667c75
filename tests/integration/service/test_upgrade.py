"""A database of 0.2.0 is upgraded with its data, and neither version starts on the other's."""

import subprocess
from pathlib import Path

import pytest

from tests.support.earlier_version import EarlierService, unpack_source
from tests.support.service import Service, connected, wait_until

# The last commit with the last revision of 0.2.0.
PREVIOUS = "07e8585b411fb7754aad57dd087303d42645ca15"
_AGENT = """
[[agents]]
id = "editor"
name = "Edits a file"
command = ["sh", "-c", "echo changed >> edited.txt"]
"""


def test_a_clone_without_history_is_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="clone the repository with its whole history"):
        unpack_source("0" * 40, tmp_path)


def test_one_machine_is_upgraded_and_rolled_back_with_its_data(tmp_path: Path) -> None:
    data, source = tmp_path / "data", unpack_source(PREVIOUS, tmp_path / "previous")
    data.mkdir()
    (data / "agentjobs.toml").write_text(_AGENT)
    previous = EarlierService(data, {}, source=source)
    previous.admin("migrate")
    previous.start()
    api = connected(previous, tmp_path)
    key = api.http.headers["Authorization"].removeprefix("Bearer ")
    jobs = [api.finish("acme/shop", "editor")]
    assert previous.stop() == 0
    previous.admin("backup", str(tmp_path / "backup"))

    current = Service(data, {})
    for command in (("keys", "list"), ("up",)):
        refused = current.try_admin(*command)
        assert (refused.returncode, "run `agentjobs migrate`" in refused.stderr) == (2, True)
    current.admin("migrate")
    current.start()
    api = current.client(key)
    # It has another port now.
    assert api.job(jobs[0]["job_id"])["pr_url"].startswith(current.root_url)
    jobs.append(api.finish("acme/shop", "editor"))
    assert current.stop() == 0

    assert_refuses_a_newer_schema(previous.try_admin("up"))
    # The backup is restored with the version that made it.
    restored = EarlierService(tmp_path / "restored", {}, source=source)
    refused = Service(tmp_path / "restored", {}).try_admin("restore", str(tmp_path / "backup"))
    assert "restore it with agentjobs 0.2.0" in refused.stderr
    restored.admin("restore", str(tmp_path / "backup"))
    restored.start()
    api = restored.client(key)
    assert api.job(jobs[0]["job_id"])["status"] == "completed"
    waiting = api.create("acme/shop", "editor")
    wait_until(lambda: api.job(waiting)["queue_reason"] == "paused", "the reason it waits")
    restored.admin("resume")
    assert api.wait_status(waiting, "completed", "failed")["status"] == "completed"
    assert restored.stop() == 0


def assert_refuses_a_newer_schema(refused: subprocess.CompletedProcess[str]) -> None:
    assert refused.returncode == 2
    assert "has schema 1000" in refused.stderr
    assert "start the version of agentjobs that migrated it" in refused.stderr
