"""The suite of the in-memory API server, on a real one."""

from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import ApiClient
from worker.tests.integration.sandbox.test_api_server import *  # noqa: F403 - all tests and fixtures


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    client = ApiClient(cluster.kubeconfig)
    yield client
    client.close()
