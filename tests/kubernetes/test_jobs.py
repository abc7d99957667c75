"""The acceptance tests of agents in pods, on a real cluster."""

from pathlib import Path

import pytest

from tests.acceptance.test_pods import *  # noqa: F403 - the same tests
from tests.kubernetes.cluster import Cluster


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig
