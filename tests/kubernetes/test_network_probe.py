"""A probe notices whether the network of a real cluster enforces policies."""

import secrets
from collections.abc import AsyncIterator

import pytest

from agentjobs_kubernetes.cluster import Cluster as Access
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.network_probe import probe_network
from tests.kubernetes import network_policies
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import AGENT_IMAGE


@pytest.fixture
async def access(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Access]:
    namespace = f"probe-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", namespace)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    settings = ClusterSettings(
        worker="probe", namespace=namespace, image=AGENT_IMAGE, user_namespaces="off"
    )
    async with Access.from_settings(settings) as access:
        yield access
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


async def test_a_network_that_ignores_policies_is_noticed(access: Access) -> None:
    probe = await probe_network(access)
    assert not probe.is_enforced
    for name in ("another pod", "the API server", "its node"):
        assert name in probe.explanation


async def test_a_network_that_enforces_policies_is_believed(
    access: Access, cluster: Cluster
) -> None:
    with network_policies.enforced(cluster):
        probe = await probe_network(access)
    assert probe.is_enforced, probe.explanation
    assert "could not reach another pod" in probe.explanation
