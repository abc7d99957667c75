"""What every sandbox guarantees, with pods of a real cluster."""

from pathlib import Path

import pytest

from tests.integration.sandbox.test_conformance import *  # noqa: F403 - the same tests
from tests.kubernetes.cluster import Cluster


@pytest.fixture(params=["kubernetes", "kubernetes-layers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig
