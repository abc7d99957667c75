"""Workers that are killed while they build an environment, and a store that is away meanwhile."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_crashes import agents_alive
from tests.support.environments import EnvironmentService
from tests.support.package_index import PRIVATE_ADDRESSES, PackageIndex, package_index
from tests.support.postgres import PostgresCluster
from tests.support.service import Service, wait_until

SETUP = "mkdir deps; echo one > deps/library; until curl -fsS URL/go; do sleep SECONDS; done"
LOOK = (
    '[[agents]]\nid = "looker"\nname = "L"\ncommand = ["sh", "-c", "cat deps/library > edited"]\n'
)


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    """Setups wait for the file `/go`."""
    with package_index() as index:
        yield index


def begin(
    service: Service, index: PackageIndex, tmp_path: Path, seconds: str
) -> EnvironmentService:
    """Connect a repository whose setup asks for `/go` once in that many seconds."""
    api = service.client(service.key())
    environments = EnvironmentService(service, api, tmp_path / "sources")
    setup = SETUP.replace("URL", index.url).replace("SECONDS", seconds)
    files = {".agentjobs.toml": f'[environment]\nsetup = "{setup}"\n', ".gitignore": "deps/\n"}
    environments.connect("acme/shop", files)
    return environments


def started(directory: Path, index: PackageIndex, **environment: str) -> Service:
    data_dir = directory / "data"
    data_dir.mkdir(exist_ok=True)
    (data_dir / "agentjobs.toml").write_text(LOOK)
    allowed = {
        "AGENTJOBS_EGRESS_ALLOW": PRIVATE_ADDRESSES,
        "AGENTJOBS_SETUP_NETWORK": index.host,
    }
    return Service(data_dir, {**allowed, **environment}).start()


def end_leases(environments: EnvironmentService) -> None:
    """As half a minute would, in which the worker stays dead."""
    with contextlib.closing(sqlite3.connect(environments.service.data_dir / "agentjobs.db")) as db:
        db.execute("UPDATE environment_builds SET lease_until = 1 WHERE state = 'building'")
        db.execute("UPDATE environment_holds SET held_until = 1")
        db.commit()


def restart_and_check(environments: EnvironmentService, job_id: str) -> None:
    """The job completes, and nothing of the killed process is left."""
    end_leases(environments)
    service = environments.service.start()
    again = EnvironmentService(service, service.client(service.key()), environments.sources)
    job, log = again.end(job_id)
    assert job["status"] == "completed", (job, log, service.log())
    (snapshot,) = snapshots(service)
    assert job["environment"]["build_id"] == snapshot.name
    states = {build["id"]: build["state"] for build in again.builds("acme/shop")}
    assert states.pop(snapshot.name) == "ready"
    assert set(states.values()) == {"removed"}
    assert (again.unfinished(), len(list(again.directory.glob("sessions/*")))) == ([], 1)
    assert service.stop() == 0, service.log()


def snapshots(service: Service) -> list[Path]:
    return list(service.data_dir.glob("environments/snapshots/*/*"))


def test_a_worker_killed_during_setup_builds_again_and_leaves_nothing(
    index: PackageIndex, tmp_path: Path, agent_seconds: str
) -> None:
    service = started(tmp_path, index)
    environments = begin(service, index, tmp_path, agent_seconds)
    job_id = environments.api.create("acme/shop", "looker")
    wait_until(lambda: agents_alive(agent_seconds), "setup to run")
    service.kill()
    wait_until(lambda: not agents_alive(agent_seconds), "setup to be gone")
    assert snapshots(service) == []
    index.files["/go"] = b"go"
    restart_and_check(environments, job_id)


def test_a_worker_killed_before_it_stored_the_build_does_not_keep_its_snapshot(
    index: PackageIndex, tmp_path: Path
) -> None:
    service = started(tmp_path, index)
    environments = begin(service, index, tmp_path, "0.05")
    job_id = environments.api.create("acme/shop", "looker")
    wait_until(lambda: index.requests, "setup to run")
    store = sqlite3.connect(service.data_dir / "agentjobs.db", isolation_level=None, timeout=30)
    with contextlib.closing(store):
        store.execute("BEGIN IMMEDIATE")
        index.files["/go"] = b"go"
        (first,) = wait_until(lambda: snapshots(service), "a snapshot")
        service.kill()
    restart_and_check(environments, job_id)
    assert not first.exists()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_build_outlasts_an_outage_of_the_store(
    stoppable_postgres: PostgresCluster, database_url: str, index: PackageIndex, tmp_path: Path
) -> None:
    service = started(tmp_path, index, AGENTJOBS_DATABASE_URL=database_url)
    environments = begin(service, index, tmp_path, "0.05")
    job_id = environments.api.create("acme/shop", "looker")
    wait_until(lambda: index.requests, "setup to run")
    stoppable_postgres.stop()
    index.files["/go"] = b"go"
    wait_until(lambda: snapshots(service), "a snapshot")
    stoppable_postgres.start()
    job, log = environments.end(job_id)
    assert job["status"] == "completed", (job, log, service.log())
    (snapshot,) = snapshots(service)
    assert job["environment"]["build_id"] == snapshot.name
    assert service.stop() == 0, service.log()
