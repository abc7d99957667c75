"""What a worker does with pods, on a real cluster."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from agentjobs_kubernetes.access import PERMISSIONS, missing_permissions
from agentjobs_kubernetes.cluster import Cluster as Access
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.network_policy import ensure_network_policy
from agentjobs_kubernetes.orphans import delete_orphans
from agentjobs_worker.sandbox.protocol import RootImage, SandboxUnavailable
from kubernetes.tests.integration.test_cluster import *  # noqa: F403 - the same tests
from kubernetes.tests.integration.test_cluster import (
    follow,
    is_gone,
    is_running,
    request,
)
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


async def test_a_worker_needs_no_other_permissions_than_those_of_its_role(
    cluster: Cluster,
    client: ApiClient,
    settings: ClusterSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "kubeconfig").write_text(_worker_kubeconfig(cluster, client.namespace))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    image = RootImage(reference=AGENT_IMAGE, registry_auth='{"auths": {}}')
    async with Access.from_settings(settings) as worker:
        assert not await missing_permissions(worker)
        await ensure_network_policy(worker)
        await worker.create_pod(request(image=image))
        name = await worker.create_pod(request())
        await follow(worker, name, is_running)
        assert not await delete_orphans(worker)
        await worker.delete_pod(name)
        await follow(worker, name, is_gone)
    elsewhere = dataclasses.replace(settings, namespace="default")
    async with Access.from_settings(elsewhere) as worker:
        with pytest.raises(SandboxUnavailable, match="needs the permission to create pods"):
            await worker.create_pod(request())


def _worker_kubeconfig(cluster: Cluster, namespace: str) -> str:
    """Of a service account that has the permissions which the doctor asks for, and no others."""
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        for (group, resource), verbs in PERMISSIONS.items()
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "worker", "namespace": namespace},
        "rules": rules,
    }
    cluster.kubectl("apply", "-f", "-", text=json.dumps(role))
    account = f"--serviceaccount={namespace}:worker"
    cluster.kubectl("-n", namespace, "create", "serviceaccount", "worker")
    cluster.kubectl("-n", namespace, "create", "rolebinding", "worker", "--role=worker", account)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("-n", namespace, "create", "token", "worker").strip()
    config["users"][0]["user"] = {"token": token}
    return json.dumps(config)
