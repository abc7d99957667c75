"""Two versions of the service over one database, while jobs run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.earlier_version import EarlierService, unpack_source
from tests.support.postgres import PostgresCluster, free_port
from tests.support.service import Service, sample_repository

# The last commit whose schema is 0009.
EARLIER = "29230c44b13f0396319948a40e506826ffef3081"
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
