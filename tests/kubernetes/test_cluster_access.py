"""What a worker does with pods, on a real cluster."""

from pathlib import Path

import pytest

from agentjobs.sandbox.kubernetes.cluster import Cluster as Access
from agentjobs.sandbox.protocol import RootImage
from tests.integration.sandbox.kubernetes.test_cluster import *  # noqa: F403 - the same tests
from tests.integration.sandbox.kubernetes.test_cluster import request
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig


async def test_the_restricted_standard_of_pod_security_admits_pods(
    cluster: Cluster, client: ApiClient, worker: Access
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", client.namespace, label)
    image = RootImage(reference=AGENT_IMAGE, registry_auth='{"auths": {}}')
    await worker.create_pod(request(image=image))
    cluster.kubectl("label", "namespace", client.namespace, "pod-security.kubernetes.io/enforce-")
