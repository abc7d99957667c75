"""Two versions of the service over one database, while jobs run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.earlier_version import EarlierService, unpack_source
from tests.support.postgres import PostgresCluster, free_port
from tests.support.service import Service, connected, sample_repository, wait_until

# The last commit whose schema is 0009.
EARLIER = "29230c44b13f0396319948a40e506826ffef3081"
# The last commit whose schema is 0024: it runs on later schemas that only add to it.
PREVIOUS = "f312099d353b8030e91f07d41c5d2e6b6b188841"
# Each worker has the agents of its own version only, which decides who runs a job.
_AGENT = """
[[agents]]
id = "{version}"
name = "Edits a file"
command = ["sh", "-c", "sleep {seconds}; echo changed >> {version}.txt"]
"""
# Jobs of the earlier worker are in flight while something is replaced.
_SECONDS = {"earlier": 2, "current": 0}


@dataclass
class Fleet:
    root: Path
    environment: dict[str, str]
    source: Path
    port: int

    def earlier(self, command: str, directory: str) -> EarlierService:
        return EarlierService(
            self.root / directory, self.environment, (command,), port=self.port, source=self.source
        )

    def current(self, command: str, directory: str) -> Service:
        return Service(self.root / directory, self.environment, (command,), port=self.port)

    def configure(self, directory: str, *versions: str) -> None:
        (self.root / directory).mkdir()
        text = "".join(_AGENT.format(version=each, seconds=_SECONDS[each]) for each in versions)
        (self.root / directory / "agentjobs.toml").write_text(text)


@pytest.fixture
def fleet(postgres_cluster: PostgresCluster, tmp_path: Path) -> Iterator[Fleet]:
    name = postgres_cluster.create_database()
    port = free_port()
    environment = {
        "AGENTJOBS_DATABASE_URL": postgres_cluster.url(name),
        "AGENTJOBS_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "AGENTJOBS_AUTO_MIGRATE": "false",
    }
    yield Fleet(tmp_path, environment, unpack_source(EARLIER, tmp_path / "earlier"), port)
    postgres_cluster.drop_database(name)


def test_a_clone_without_history_is_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="clone the repository with its whole history"):
        unpack_source("0" * 40, tmp_path)


def test_earlier_and_current_processes_work_together_during_an_upgrade(fleet: Fleet) -> None:
    fleet.configure("serve", "earlier", "current")
    fleet.configure("earlier-worker", "earlier")
    fleet.configure("current-worker", "current")
    serve = fleet.earlier("serve", "serve").start()
    running: list[Service] = [serve]
    try:
        earlier_worker = fleet.earlier("worker", "earlier-worker").start()
        running.append(earlier_worker)
        serve.connect(sample_repository(fleet.root / "source"), "acme/shop")
        api = serve.client(serve.key())
        api.wait_ready("acme/shop")
        in_flight = api.create("acme/shop", "earlier")
        api.wait_status(in_flight, "running")

        # The earlier processes go on, and a current worker works for an earlier API.
        current_worker = fleet.current("worker", "current-worker")
        current_worker.admin("migrate")
        current_worker.start()
        running.append(current_worker)
        # The earlier API does not know the scope `pulls`: the key may create jobs nevertheless.
        newer = serve.client(current_worker.key("--pulls"))
        assert newer.finish("acme/shop", "current")["status"] == "completed"
        assert api.wait_status(in_flight, "completed", "failed")["status"] == "completed"

        # A current API takes over from the earlier one while an earlier worker runs a job.
        in_flight = api.create("acme/shop", "earlier")
        api.wait_status(in_flight, "running")
        key = api.http.headers["Authorization"].removeprefix("Bearer ")
        serve.stop()
        serve = running[0] = fleet.current("serve", "serve").start()
        api = serve.client(key)
        later = [api.create("acme/shop", agent) for agent in ("earlier", "current")]
        for job_id in (in_flight, *later):
            assert api.wait_status(job_id, "completed", "failed")["status"] == "completed"
        assert api.http.get(f"{serve.root_url}/readyz").status_code == 200
    finally:
        for service in reversed(running):
            service.stop()


def test_one_machine_is_upgraded_and_rolled_back_with_its_data(tmp_path: Path) -> None:
    data, source = tmp_path / "data", unpack_source(PREVIOUS, tmp_path / "previous")
    data.mkdir()
    (data / "agentjobs.toml").write_text(_AGENT.format(version="current", seconds=0))
    previous = EarlierService(data, {}, source=source)
    previous.admin("migrate")
    previous.start()
    api = connected(previous, tmp_path)
    key = api.http.headers["Authorization"].removeprefix("Bearer ")
    jobs = [api.finish("acme/shop", "current")]
    assert previous.stop() == 0
    previous.admin("backup", str(tmp_path / "backup"))

    current = Service(data, {})
    refused = current.try_admin("keys", "list")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "has schema 0024" in refused.stderr
    current.start()
    api = current.client(key)
    # It has another port now.
    assert api.job(jobs[0]["job_id"])["pr_url"].startswith(current.root_url)
    jobs.append(api.finish("acme/shop", "current"))
    assert current.stop() == 0

    # The earlier version goes on with the newer store, which only has more.
    rolled_back = EarlierService(data, {}, source=source).start()
    api = rolled_back.client(key)
    jobs.append(api.finish("acme/shop", "current"))
    for job in jobs:
        assert api.job(job["job_id"])["status"] == "completed"
    assert rolled_back.stop() == 0

    # Or the backup is restored, which the earlier version then runs on.
    restored = Service(tmp_path / "restored", {})
    restored.admin("restore", str(tmp_path / "backup"))
    rolled_back = EarlierService(tmp_path / "restored", {}, source=source).start()
    api = rolled_back.client(key)
    assert api.job(jobs[0]["job_id"])["status"] == "completed"
    waiting = api.create("acme/shop", "current")
    wait_until(lambda: api.job(waiting)["queue_reason"] == "paused", "the reason it waits")
    rolled_back.admin("resume")
    assert api.wait_status(waiting, "completed", "failed")["status"] == "completed"
    assert rolled_back.stop() == 0
