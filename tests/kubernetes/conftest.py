"""These tests need a real cluster, so only `make test-kubernetes` runs them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/kubernetes" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A new one, or the running one whose directory AGENTJOBS_TEST_CLUSTER names."""
    directory = os.environ.get("AGENTJOBS_TEST_CLUSTER")
    if directory:
        yield Cluster(Path(directory))
        return
    with Cluster() as started:
        yield started
