"""What `agentjobs doctor` says of a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_kubernetes import description, network_probe
from agentjobs_kubernetes.access import PERMISSIONS
from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.description import describe_sandbox
from agentjobs_worker.sandbox.protocol import SandboxDescription
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    client = ApiClient(cluster.kubeconfig)
    yield client
    client.close()


async def describe(namespace: str) -> SandboxDescription:
    return await describe_sandbox(
        Settings(
            data_dir="/nowhere",
            sandbox="kubernetes",
            kubernetes_namespace=namespace,
            kubernetes_image=AGENT_IMAGE,
            kubernetes_user_namespaces="off",
        )
    )


async def test_a_cluster_is_tried_and_left_as_it_was(
    cluster: MemoryCluster, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_probe, "_LATE_SECONDS", 0)
    path = f"/api/v1/namespaces/{client.namespace}/secrets"
    ours = {"app.kubernetes.io/managed-by": "agentjobs"}
    client.post(path, {"metadata": {"name": "pull-secret", "labels": ours}})
    for number in range(7):
        client.post(path, {"metadata": {"name": f"database-{number}"}})
    described = await describe(client.namespace)
    assert described.kind == "kubernetes"
    assert described.version.endswith(f" at {cluster.url}, namespace {client.namespace}")
    assert described.runs_as == "random uids from 900000 on"
    secrets, user_namespaces = described.notes
    named = ", ".join(f"database-{number}" for number in range(5))
    assert f"secrets that do not belong to agents ({named} and 2 more)" in secrets
    assert user_namespaces.startswith("pods have no user namespace")
    # Pods reach every address of the loopback here.
    (problem,) = described.problems
    assert problem.startswith("the cluster's network does not enforce NetworkPolicies")
    assert described.network == ""
    assert client.get(client.pods)["items"] == []


async def test_a_namespace_without_any_permission_is_named(
    cluster: MemoryCluster, client: ApiClient
) -> None:
    cluster.api.faults.forbidden = {
        (verb, resource) for (_, resource), verbs in PERMISSIONS.items() for verb in verbs
    }
    try:
        described = await describe(client.namespace)
    finally:
        cluster.api.faults.forbidden = set()
    (problem,) = described.problems
    assert problem.startswith(f"this worker may do nothing in the namespace {client.namespace}: ")


async def test_missing_permissions_are_named_before_anything_is_tried(
    cluster: MemoryCluster, client: ApiClient
) -> None:
    cluster.api.faults.forbidden = {("delete", "pods"), ("create", "networkpolicies")}
    try:
        described = await describe(client.namespace)
    finally:
        cluster.api.faults.forbidden = set()
    (problem,) = described.problems
    assert problem == (
        "this worker may not delete pods, create networkpolicies in the namespace "
        f"{client.namespace}: add that to the Role of its service account; the Helm chart has the "
        "whole list"
    )
    assert described.runs_as == ""


async def test_a_namespace_that_does_not_exist_is_a_problem_with_a_command() -> None:
    with memory_cluster() as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        (problem,) = (await describe("nowhere")).problems
    assert "kubectl create namespace nowhere" in problem


async def test_an_api_server_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: ApiClient, cluster: MemoryCluster
) -> None:
    monkeypatch.setattr(description, "_ACCESS_SECONDS", 0.2)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig.read_text().replace(cluster.url, "http://127.0.0.1:9"))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    (problem,) = (await describe(client.namespace)).problems
    assert problem == (
        "the API server http://127.0.0.1:9 did not answer within 0.2 seconds: check KUBECONFIG and "
        "the network"
    )


async def test_a_wrong_credential_is_a_problem(cluster: MemoryCluster, client: ApiClient) -> None:
    token = cluster.api.token
    cluster.api.token = "another"
    try:
        (problem,) = (await describe(client.namespace)).problems
    finally:
        cluster.api.token = token
    assert "does not accept this worker's credential" in problem


async def test_no_access_to_a_cluster_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (problem,) = (await describe("agents")).problems
    assert "set KUBECONFIG to the path of one file" in problem
