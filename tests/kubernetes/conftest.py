"""These tests need a real cluster, so only `make test SUITE=kubernetes` runs them."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentjobs_kubernetes.sandbox import KubernetesSandbox
from tests.hostile.conftest import (  # noqa: F401 - the same, with other sandboxes
    _migrated_stores,
    attacked_service,
    hostile,
)
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.hostile_pods import attacked_pods
from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.kubernetes.memory_cluster import memory_cluster_process
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness

# As the value of AGENTJOBS_TEST_CLUSTER.
MEMORY = "memory"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/kubernetes" in argument for argument in config.args) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing limits the memory of pods of an in-memory cluster: they would use the machine's."""
    if os.environ.get("AGENTJOBS_TEST_CLUSTER") == MEMORY:
        items[:] = [item for item in items if "memory" not in item.name]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A new one, or the running one whose directory AGENTJOBS_TEST_CLUSTER names."""
    assert os.environ.get("AGENTJOBS_TEST_CLUSTER") != MEMORY, "this test needs a real cluster"
    directory = os.environ.get("AGENTJOBS_TEST_CLUSTER")
    if directory:
        yield Cluster(Path(directory))
        return
    with Cluster() as started:
        yield started


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Of the cluster, or of an in-memory one, for tests that use nothing else of the cluster."""
    if os.environ.get("AGENTJOBS_TEST_CLUSTER") == MEMORY:
        with memory_cluster_process() as kubeconfig:
            yield kubeconfig
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    yield cluster.kubeconfig


@pytest.fixture
async def sandbox(kubeconfig: Path) -> AsyncIterator[KubernetesSandbox]:
    async with pod_sandbox(kubeconfig) as sandbox:
        yield sandbox


@pytest.fixture
def harness(sandbox: KubernetesSandbox, tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(sandbox, tmp_path)


@pytest.fixture(scope="session")
def attacked_sandbox(kubeconfig: Path) -> Iterator[AttackedSandbox]:
    is_in_memory = os.environ.get("AGENTJOBS_TEST_CLUSTER") == MEMORY
    with attacked_pods(kubeconfig, is_in_memory=is_in_memory) as sandbox:
        yield sandbox
