"""A probe notices whether the network of a real cluster enforces policies."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.network_probe import probe_network
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from tests.kubernetes import network_policies
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import AGENT_IMAGE


@pytest.fixture
async def sandbox(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesSandbox]:
    namespace = f"probe-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", namespace)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    settings = ClusterSettings(
        worker="probe", namespace=namespace, image=AGENT_IMAGE, user_namespaces="off"
    )
    sandbox = KubernetesSandbox(settings, tmp_path)
    yield sandbox
    await sandbox.close()
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


async def test_a_network_that_ignores_policies_is_noticed(sandbox: KubernetesSandbox) -> None:
    probe = await probe_network(sandbox.runs)
    assert not probe.is_enforced
    for name in ("another pod", "the API server", "its node"):
        assert name in probe.explanation


async def test_a_network_that_enforces_policies_is_believed(
    sandbox: KubernetesSandbox, cluster: Cluster
) -> None:
    with network_policies.enforced(cluster):
        probe = await probe_network(sandbox.runs)
    assert probe.is_enforced, probe.explanation
    assert "could not reach another pod" in probe.explanation
