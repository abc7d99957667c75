"""The cache of layers on a volume of a real cluster, with and without user namespaces."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentjobs_kubernetes import layer_cache
from kubernetes.tests.integration.test_layer_cache import *  # noqa: F403 - the same tests
from kubernetes.tests.integration.test_layer_cache import CLAIM
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.volumes import claimed_directory
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness


@pytest.fixture
def volume() -> Iterator[Path]:
    # On a disk that supports mapped owners, as volumes of user namespaces must.
    with tempfile.TemporaryDirectory(prefix="agentjobs-cache-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


@pytest.fixture(params=["on", "off"])
async def harness(
    cluster: Cluster,
    volume: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[SandboxHarness]:
    monkeypatch.setattr(layer_cache, "MIN_LAYER_BYTES", 1)
    settings = {"cache_claim": CLAIM, "user_namespaces": request.param}
    async with pod_sandbox(cluster.kubeconfig, **settings) as sandbox:
        namespace = sandbox.cluster.settings.namespace
        cluster.kubectl(
            "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
        )
        with claimed_directory(cluster, namespace, CLAIM, volume):
            yield SandboxHarness(sandbox, tmp_path)
