"""Fixtures of tests that run a whole service; their conftest.py imports them."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresCluster
from tests.support.service import (
    Api,
    Service,
    StartService,
    StartWorker,
    sample_repository,
    worker_beside,
)

QUICK = {"AGENTJOBS_LEASE_SECONDS": "2", "AGENTJOBS_LEASE_RENEW_SECONDS": "0.5"}
AGENTS = '''
[[agents]]
id = "slow-once"
name = "Slow at its first attempt"
command = ["sh", "-c", """
echo "attempt: $(grep -o '"attempt": *[0-9]*' "$AGENTJOBS_JOB")"
echo changed > edited.txt
grep -q '"attempt": *1[,}]' "$AGENTJOBS_JOB" && exec sleep SECONDS
exit 0
"""]

[[agents]]
id = "quick"
name = "Quick"
command = ["sh", "-c", "echo the agent runs; echo changed > edited.txt"]

[[agents]]
id = "two-seconds"
name = "Two seconds"
command = ["sh", "-c", "echo the agent runs; sleep SHORT; echo changed > edited.txt"]

[[agents]]
id = "two-second-report"
name = "Two seconds"
result = "report"
command = ["sh", "-c", "echo the agent runs; sleep SHORT; echo All is well. > $AGENTJOBS_REPORT"]

[[agents]]
id = "sleepy"
name = "Sleepy"
command = ["sh", "-c", "echo asleep; exec sleep SECONDS"]

[[agents]]
id = "premium"
name = "Premium"
plan_required = "pro"
command = ["true"]
'''


@pytest.fixture(scope="session", autouse=True)
def migrated_stores(sqlite_template: Path) -> None:
    Service.sqlite_template = sqlite_template


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One `agentjobs up` for the whole suite, with a connected sample repository."""
    running = Service(tmp_path_factory.mktemp("service") / "data").start()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="session")
def key(service: Service) -> str:
    return service.key("--git-write")


@pytest.fixture(scope="session")
def api(service: Service, key: str, tmp_path_factory: pytest.TempPathFactory) -> Api:
    source = sample_repository(tmp_path_factory.mktemp("source") / "shop")
    service.connect(source, "acme/shop")
    client = service.client(key)
    client.wait_ready("acme/shop")
    return client


@pytest.fixture
def stoppable_postgres(
    postgres_cluster: PostgresCluster, postgres_url: str
) -> Iterator[PostgresCluster]:
    """The server of `postgres_url`, for tests that stop it: they run alone on it."""
    yield postgres_cluster
    if not postgres_cluster.is_running:
        postgres_cluster.start()


@pytest.fixture
def agent_seconds() -> str:
    """How long this test's agents sleep: identifies their processes among concurrent tests."""
    return f"600.{secrets.randbelow(10**9):09d}"


@pytest.fixture
def short_seconds(agent_seconds: str) -> str:
    """How long the agents sleep that end by themselves."""
    return agent_seconds.replace("600.", "2.")


@pytest.fixture
def start(
    database_url: str, tmp_path: Path, agent_seconds: str, short_seconds: str
) -> Iterator[StartService]:
    """Starts services on one store; `data_dir` names the data directory of each."""
    started: list[Service] = []
    agents = AGENTS.replace("SECONDS", agent_seconds).replace("SHORT", short_seconds)

    def start_service(
        *command: str, data_dir: str = "data", beside: Service | None = None, **environment: str
    ) -> Service:
        directory = tmp_path / data_dir
        directory.mkdir(exist_ok=True)
        (directory / "agentjobs.toml").write_text(agents)
        settings = {**QUICK, **environment}
        if beside is None:
            settings = {"AGENTJOBS_DATABASE_URL": database_url, **settings}
            service = Service(directory, settings, command or ("up",))
        else:
            service = worker_beside(beside, directory, **settings)
        started.append(service.start())
        return service

    yield start_service
    for service in started:
        if service.process is not None and service.process.poll() is None:
            service.kill()


@pytest.fixture
def start_worker(start: StartService) -> StartWorker:
    """Starts a worker of a running `serve`, with a data directory of its own."""

    def start_beside(serve: Service, data_dir: str = "worker", **environment: str) -> Service:
        return start(data_dir=data_dir, beside=serve, **environment)

    return start_beside
