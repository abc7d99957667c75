"""These tests need Prometheus, so only `make test SUITE=alerts` runs them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.deployment import Deployment
from tests.support.postgres import PostgresCluster


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/alerts" in argument for argument in config.args) else True


@pytest.fixture
def deployment(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> Iterator[Deployment]:
    running = Deployment(postgres_cluster, postgres_url, tmp_path)
    yield running
    running.stop()
    if not postgres_cluster.is_running:
        postgres_cluster.start()
