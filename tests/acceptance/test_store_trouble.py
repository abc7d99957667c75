"""A store that fails under a running service: clear responses meanwhile, full recovery after."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support import sqlite_file
from tests.support.postgres import PostgresCluster
from tests.support.service import Api, Service, sample_repository, wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A separate service without a worker: jobs stay queued."""
    running = Service(tmp_path / "data", command=("serve",)).start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Api:
    service.connect(sample_repository(tmp_path / "source"), "acme/shop")
    client = service.client(service.key())
    client.wait_ready("acme/shop")
    return client


def post(api: Api) -> int:
    return api.http.post("/jobs", json={"repo": "acme/shop", "agent": "idle"}).status_code


def jobs(api: Api) -> int:
    return len(api.http.get("/jobs").json()["jobs"])


def readiness(service: Service) -> int:
    return httpx.get(f"{service.root_url}/readyz").status_code


@contextmanager
def full_disk(service: Service) -> Iterator[None]:
    """Prevent every file of the service from growing, as on a full disk."""
    assert service.process is not None
    pid = service.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_a_locked_database_returns_503_until_it_is_unlocked(service: Service, api: Api) -> None:
    with sqlite_file.locked(service.data_dir / "agentjobs.db"):
        response = api.http.post("/jobs", json={"repo": "acme/shop", "agent": "idle"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        assert int(response.headers["retry-after"]) > 0
        assert jobs(api) == 0
    assert post(api) == 202
    assert jobs(api) == 1


def test_a_full_disk_returns_503_and_loses_nothing(service: Service, api: Api) -> None:
    assert post(api) == 202
    with full_disk(service):
        response = api.http.post("/jobs", json={"repo": "acme/shop", "agent": "idle"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        wait_until(lambda: readiness(service) == 503, "the service to be unready")
        assert jobs(api) == 1
    wait_until(lambda: readiness(service) == 200, "the service to be ready")
    assert post(api) == 202
    assert jobs(api) == 2


def test_the_service_recovers_from_a_restart_of_the_database_server(
    stoppable_postgres: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    environment = {"AGENTJOBS_DATABASE_URL": postgres_url}
    service = Service(tmp_path / "data", environment, ("serve",)).start()
    service.connect(sample_repository(tmp_path / "source"), "acme/shop")
    api = service.client(service.key())
    api.wait_ready("acme/shop")
    assert post(api) == 202

    stoppable_postgres.stop()
    assert post(api) == 503
    assert api.http.get(f"{service.root_url}/readyz").status_code == 503
    assert api.http.get(f"{service.root_url}/healthz").status_code == 200
    assert [post(api) for _ in range(20)] == [503] * 20
    lines = [json.loads(line) for line in service.log().splitlines()]
    loggers = [line["logger"] for line in lines if line["level"] != "info"]
    # A busy machine delays the event loop.
    assert set(loggers) - {"agentjobs.loop_monitor"} == {"agentjobs.store.outage_log"}
    assert loggers.count("agentjobs.store.outage_log") == 1

    stoppable_postgres.start()
    wait_until(lambda: post(api) == 202, "the store to be back")
    assert jobs(api) == 2
    assert service.stop() == 0
