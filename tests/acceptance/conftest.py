from collections.abc import Iterator

import pytest

from tests.service import Api, Service, sample_repository


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
