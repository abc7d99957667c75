"""Pods, their secrets and their network policy; tests/kubernetes runs these on a real cluster."""

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs_kubernetes import user_namespaces
from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.credentials import new_credentials
from agentjobs_kubernetes.idle_task import idle_task
from agentjobs_kubernetes.labels import JOB
from agentjobs_kubernetes.network_policy import POLICY_NAME, ensure_network_policy
from agentjobs_kubernetes.orphans import delete_orphans, delete_superseded
from agentjobs_kubernetes.pod_status import PodState
from agentjobs_kubernetes.pods import PodRequest, pod_name
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_worker.sandbox.protocol import (
    ImageUnavailable,
    RootImage,
    RunOwner,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
)
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.kubernetes.memory_cluster import memory_cluster

MIB = 1024**2
SMALL = Limits(memory_bytes=64 * MIB, workspace_bytes=MIB, scratch_bytes=MIB)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with memory_cluster() as cluster:
        yield cluster.kubeconfig


@pytest.fixture(scope="module")
def client(kubeconfig: Path) -> Iterator[ApiClient]:
    client = ApiClient(kubeconfig)
    # A real cluster creates the namespace's service account a moment later.
    client.create_pod("true", name="first")
    yield client
    client.close()


@pytest.fixture
def settings(
    client: ApiClient, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterSettings]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    yield ClusterSettings(
        worker=f"worker-{secrets.token_hex(4)}",
        namespace=client.namespace,
        image=AGENT_IMAGE,
        user_namespaces="off",
        pending_seconds=60,
    )
    for pod in client.get(client.pods)["items"]:
        client.http.delete(f"{client.pods}/{pod['metadata']['name']}?gracePeriodSeconds=0")


@pytest.fixture
async def worker(settings: ClusterSettings) -> AsyncIterator[Cluster]:
    async with Cluster.from_settings(settings) as cluster:
        yield cluster


def request(**changes: Any) -> PodRequest:
    supervisor = new_credentials().supervisor_variable(60, ())
    owner = RunOwner(organization_id="org_1", step="agent", job_id="job_1", fence=1)
    task = dataclasses.replace(
        idle_task("agent", 60), **{"limits": SMALL, "owner": owner} | changes
    )
    return PodRequest(name=pod_name("agent"), supervisor=supervisor, task=task)


async def follow(cluster: Cluster, name: str, condition: Callable[[PodState], object]) -> PodState:
    async for state in cluster.watch_pod(name):
        if condition(state):
            return state
    raise AssertionError("the pod was gone before")


def is_running(state: PodState) -> bool:
    return state.is_running


def is_gone(state: PodState) -> bool:
    return state.is_gone


async def test_a_pod_is_followed_from_its_creation_to_its_end(worker: Cluster) -> None:
    name = await worker.create_pod(request())
    running = await follow(worker, name, is_running)
    assert running.ip
    assert (running.waiting, running.failure) == ("", None)
    await worker.delete_pod(name)
    await worker.delete_pod(name)
    assert (await follow(worker, name, is_gone)).uid in (running.uid, "")
    assert not await worker.find_pods({JOB: "job_1"})


async def test_a_pod_that_somebody_deletes_is_lost(worker: Cluster, client: ApiClient) -> None:
    name = await worker.create_pod(request())
    await follow(worker, name, is_running)
    await asyncio.to_thread(client.delete, f"{client.pods}/{name}")
    state = await follow(worker, name, lambda state: state.failure)
    assert isinstance(state.failure, SandboxLost)
    assert "somebody deleted the pod" in str(state.failure)
    await follow(worker, name, is_gone)


async def test_a_pod_that_never_was_is_gone(worker: Cluster) -> None:
    states = [state async for state in worker.watch_pod("agentjobs-agent-none")]
    assert [state.is_gone for state in states] == [True]
    await worker.delete_pod("agentjobs-agent-none")


async def test_creating_a_pod_again_finds_the_one_that_a_lost_answer_hid(
    worker: Cluster,
) -> None:
    pod = request(image=RootImage(reference=AGENT_IMAGE, registry_auth='{"auths": {}}'))
    assert await worker.create_pod(pod) == await worker.create_pod(pod) == pod.name
    assert len(await worker.find_pods({JOB: "job_1"})) == 1


async def test_pods_are_found_by_values_that_labels_cannot_hold(worker: Cluster) -> None:
    owner = RunOwner(organization_id="org_1", step="agent", job_id="job/1 ü" * 20)
    name = await worker.create_pod(request(owner=owner))
    (pod,) = await worker.find_pods({JOB: owner.job_id})
    assert pod.name == name
    assert pod.annotations[JOB] == owner.job_id


async def test_an_image_that_cannot_be_used_is_unavailable(worker: Cluster) -> None:
    name = await worker.create_pod(request(image=RootImage(reference="UPPER//app:1")))
    state = await follow(worker, name, lambda state: state.failure)
    assert isinstance(state.failure, ImageUnavailable)
    assert "InvalidImageName" in str(state.failure)


async def test_a_pod_without_a_place_says_why(worker: Cluster) -> None:
    placement = Placement(node_selector={"pool": "none"})
    name = await worker.create_pod(request(placement=placement))
    state = await follow(worker, name, lambda state: state.waiting)
    assert state.failure is None
    assert "0/1 nodes are available" in str(state.start_timeout(1))


async def test_a_pull_secret_lives_as_long_as_its_pod(worker: Cluster, client: ApiClient) -> None:
    image = RootImage(reference=AGENT_IMAGE, registry_auth='{"auths": {"r.test": {}}}')
    name = await worker.create_pod(request(image=image))
    path = f"/api/v1/namespaces/{client.namespace}/secrets/{name}"
    secret = await asyncio.to_thread(client.get, path)
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert secret["metadata"]["labels"]["agentjobs.dev/worker"] == worker.settings.worker
    await worker.delete_pod(name)
    while (await asyncio.to_thread(client.http.get, path)).status_code != 404:
        pass


async def test_a_pod_that_the_cluster_refuses_is_an_error_in_words(worker: Cluster) -> None:
    pod = dataclasses.replace(request(), name="Not a name")
    with pytest.raises(SandboxError, match=r"the cluster refuses to create a pod: .*metadata.name"):
        await worker.create_pod(pod)


async def test_a_missing_namespace_is_named(settings: ClusterSettings) -> None:
    missing = dataclasses.replace(settings, namespace="none-here")
    async with Cluster.from_settings(missing) as cluster:
        with pytest.raises(SandboxUnavailable, match="kubectl create namespace none-here"):
            await cluster.create_pod(request())


async def test_a_changed_network_policy_is_changed_back(
    settings: ClusterSettings, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{client.namespace}/networkpolicies"
    settings = dataclasses.replace(
        settings, worker_labels={"app": "workers"}, worker_cidrs=("10.0.0.0/8",)
    )
    async with Cluster.from_settings(settings) as cluster:
        await ensure_network_policy(cluster)
        policy = await asyncio.to_thread(client.get, f"{path}/{POLICY_NAME}")
        await ensure_network_policy(cluster)
        unchanged = await asyncio.to_thread(client.get, f"{path}/{POLICY_NAME}")
        assert unchanged == policy
        # A kubelet of an earlier test may still write to the log.
        assert [it.message for it in caplog.records if it.name.startswith("agentjobs")] == []
        edited = {**policy, "spec": {**policy["spec"], "egress": [{}]}}
        await asyncio.to_thread(client.http.put, f"{path}/{POLICY_NAME}", json=edited)
        await ensure_network_policy(cluster)
        restored = await asyncio.to_thread(client.get, f"{path}/{POLICY_NAME}")
    assert restored["spec"] == policy["spec"]
    # Two installations in one namespace would change it all the time.
    assert "another kubernetes_namespace" in caplog.text


async def test_a_restarted_worker_deletes_its_old_pods_but_no_one_elses(
    worker: Cluster, settings: ClusterSettings
) -> None:
    other = dataclasses.replace(settings, worker=f"{settings.worker}-other")
    async with Cluster.from_settings(settings) as restarted, Cluster.from_settings(other) as others:
        names = [await each.create_pod(request()) for each in (worker, worker, others)]
        assert not await delete_orphans(worker)
        assert await delete_orphans(restarted, keep=names[:1]) == [names[1]]
        left = {pod.name for pod in await worker.find_pods({JOB: "job_1"})}
    assert left == {names[0], names[2]}


async def test_a_later_claim_ends_the_pods_of_earlier_ones(worker: Cluster) -> None:
    owner = RunOwner(organization_id="org_1", step="agent", job_id="job_2", fence=5)
    owners = [dataclasses.replace(owner, fence=fence) for fence in (3, 4, 5)]
    owners.append(dataclasses.replace(owner, job_id="job_3", fence=1))
    names = [await worker.create_pod(request(owner=each)) for each in owners]
    assert await delete_superseded(worker, owner, keep=names[1:2]) == names[:1]
    assert {pod.name for pod in await worker.find_pods({})} >= set(names[1:])


async def test_user_namespaces_are_used_where_pods_start_with_them(
    settings: ClusterSettings, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer than a cluster at work.
    monkeypatch.setattr(user_namespaces, "_MAX_SECONDS", 60)
    automatic = dataclasses.replace(settings, user_namespaces="auto")
    async with Cluster.from_settings(automatic) as cluster:
        assert await user_namespaces.detect_user_namespaces(cluster)
        name = await cluster.create_pod(request())
        await follow(cluster, name, is_running)
        pod = await asyncio.to_thread(client.get, f"{client.pods}/{name}")
    assert pod["spec"]["hostUsers"] is False
