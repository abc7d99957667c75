"""An API server that is away, overloaded or restarted fails nothing that can wait."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs_kubernetes import api_retries, cluster, pod_watch, user_namespaces
from agentjobs_kubernetes import sandbox as sandbox_module
from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.labels import JOB
from agentjobs_kubernetes.orphans import delete_orphans
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.loops.cluster_loop import check_cluster
from agentjobs_worker.sandbox.protocol import SandboxLost, SandboxUnavailable, SandboxUnreachable
from kubernetes.tests.integration.test_cluster import (
    follow,
    is_gone,
    is_running,
    request,
)
from tests.support.kubernetes.client import AGENT_IMAGE
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.kubernetes.objects import ApiError

NAMESPACE = "agents"
QUOTA = 'pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1'


def kubeconfig(server: str, **user: Any) -> str:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(content)


@pytest.fixture(scope="module")
def server() -> Iterator[MemoryCluster]:
    with memory_cluster() as server:
        server.create_namespace(NAMESPACE)
        yield server


@pytest.fixture
def settings(server: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSettings]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    yield ClusterSettings(
        worker="worker-1",
        namespace=NAMESPACE,
        image=AGENT_IMAGE,
        user_namespaces="off",
        pending_seconds=60,
    )
    server.api.faults.errors.clear()
    server.api.faults.forbidden.clear()
    server.api.faults.ends_watches = False


@pytest.fixture
async def worker(settings: ClusterSettings) -> AsyncIterator[Cluster]:
    async with Cluster.from_settings(settings) as worker:
        yield worker
        for pod in await worker.find_pods({}):
            await worker.delete_pod(pod.name)


async def stop(server: MemoryCluster) -> None:
    await asyncio.to_thread(server.wait, server.api.stop())


async def start(server: MemoryCluster) -> None:
    await asyncio.to_thread(server.wait, server.api.start())


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it happens in another thread
            await asyncio.sleep(0.01)


def watches_of(server: MemoryCluster) -> list[str]:
    return [each for each in server.api.requests if "watch=true" in each]


@pytest.mark.parametrize("code", [401, 429, 500, 503, 504])
async def test_errors_that_pass_are_waited_out(
    server: MemoryCluster, worker: Cluster, code: int
) -> None:
    server.api.faults.errors.append(ApiError(code, "Busy", "try again"))
    name = await worker.create_pod(request())
    assert [pod.name for pod in await worker.find_pods({JOB: "job_1"})] == [name]


async def test_a_creation_waits_for_the_server_and_says_so(
    server: MemoryCluster, worker: Cluster
) -> None:
    await stop(server)
    is_told = asyncio.Event()
    notes: list[str] = []

    def on_waiting(text: str) -> None:
        notes.append(text)
        is_told.set()

    creating = asyncio.create_task(worker.create_pod(request(), on_waiting))
    await is_told.wait()
    await start(server)
    await follow(worker, await creating, is_running)
    assert notes[0].startswith("waiting to create a pod: the Kubernetes API server does not answer")


async def test_a_worker_is_not_ready_while_the_server_is_away(
    server: MemoryCluster,
    settings: ClusterSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox_module, "PROBE_SECONDS", 0.3)
    worker = WorkerInfo("wrk_a", "host", 1, ["any"])
    pods = KubernetesSandbox(settings, tmp_path)
    await check_cluster(pods, worker)
    assert worker.sandbox_problem == ""
    await stop(server)
    await check_cluster(pods, worker)
    words = "the Kubernetes API server does not answer (All connection attempts failed)"
    assert worker.sandbox_problem == words
    with pytest.raises(SandboxUnreachable, match="does not answer"):
        await pods.check()
    await start(server)
    await check_cluster(pods, worker)
    assert worker.sandbox_problem == ""
    await pods.close()


async def test_a_creation_gives_up_in_the_end(
    server: MemoryCluster, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_DELETE_WAIT_SECONDS", 0.1)
    short_wait = dataclasses.replace(settings, pending_seconds=0.3)
    await stop(server)
    try:
        async with Cluster.from_settings(short_wait) as worker:
            with pytest.raises(SandboxLost, match=r"could not create a pod for 0.3 seconds"):
                await worker.create_pod(request())
    finally:
        await start(server)


async def test_a_running_pod_is_followed_over_a_restart_of_the_server(
    server: MemoryCluster, worker: Cluster
) -> None:
    name = await worker.create_pod(request())
    await follow(worker, name, is_running)
    await stop(server)
    # Nobody can ask the server about this, but the pod ends all the same.
    await asyncio.to_thread(
        server.call, lambda: server.kubelet.pod(NAMESPACE, name).fail("Evicted", "low on memory")
    )
    await start(server)
    state = await follow(worker, name, lambda state: state.failure)
    assert "low on memory" in str(state.failure)


async def test_a_watch_that_breaks_resumes_where_it_was(
    server: MemoryCluster, worker: Cluster
) -> None:
    name = await worker.create_pod(request())
    await follow(worker, name, is_running)
    server.api.requests.clear()
    await asyncio.to_thread(server.call, server.api.drop_watches)
    await asyncio.to_thread(
        server.call, lambda: server.kubelet.pod(NAMESPACE, name).kill("OOMKilled")
    )
    assert (await follow(worker, name, lambda state: state.has_ended)).is_oom_killed
    assert all("resourceVersion=" in each for each in watches_of(server))
    lists = [each for each in server.api.requests if each.startswith("GET")]
    assert lists == watches_of(server)


async def test_a_proxy_that_ends_idle_watches_delays_nothing(
    server: MemoryCluster,
    worker: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(pod_watch, "STABLE_SECONDS", 0)
    await follow(worker, await worker.create_pod(request()), is_running)
    for _ in range(5):
        await wait_until(lambda: bool(server.api._watches))
        await asyncio.to_thread(server.call, server.api.drop_watches)
        await wait_until(lambda: not server.api._watches)
    assert "The watch of pods is interrupted" not in caplog.text


async def test_a_proxy_that_ends_every_watch_at_once_is_asked_slowly_and_hides_nothing(
    server: MemoryCluster, worker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as they really are.
    monkeypatch.setattr(api_retries, "_MIN_DELAY", 0.2)
    server.api.faults.ends_watches = True
    name = await worker.create_pod(request())
    began = asyncio.get_running_loop().time()
    server.api.requests.clear()
    await follow(worker, name, is_running)
    await asyncio.to_thread(
        server.call, lambda: server.kubelet.pod(NAMESPACE, name).kill("OOMKilled")
    )
    assert (await follow(worker, name, lambda state: state.has_ended)).is_oom_killed
    waited = asyncio.get_running_loop().time() - began
    # No pause is shorter than a tenth of a second.
    assert len(watches_of(server)) <= 1 + 10 * waited


async def test_a_version_that_the_server_forgot_lists_again(
    server: MemoryCluster, worker: Cluster
) -> None:
    kept, deleted = [await worker.create_pod(request()) for _ in range(2)]
    for name in (kept, deleted):
        await follow(worker, name, is_running)
    await stop(server)
    pod = server.objects.get("pods", NAMESPACE, deleted)
    await asyncio.to_thread(server.call, lambda: server.api.remove_pod(pod))
    # The node must have seen it: it would not list again.
    await asyncio.to_thread(server.call, server.objects.compact)
    await start(server)
    gone = await follow(worker, deleted, is_gone)
    assert isinstance(gone.failure, SandboxLost)
    assert (await follow(worker, kept, is_running)).failure is None


async def test_all_pods_of_a_worker_share_one_watch(server: MemoryCluster, worker: Cluster) -> None:
    server.api.requests.clear()
    names = [await worker.create_pod(request()) for _ in range(4)]
    await asyncio.gather(*(follow(worker, name, is_running) for name in names))
    assert len(watches_of(server)) == 1
    assert "agentjobs.dev%2Fworker%3Dworker-1" in watches_of(server)[0]


async def test_a_deletion_goes_on_after_the_server_is_back(
    server: MemoryCluster, worker: Cluster
) -> None:
    name = await worker.create_pod(request())
    await follow(worker, name, is_running)
    await stop(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "_DELETE_WAIT_SECONDS", 0.1)
        await worker.delete_pod(name)
    await start(server)
    await follow(worker, name, is_gone)


async def test_a_creation_that_is_cancelled_on_its_way_leaves_no_pod(
    server: MemoryCluster, worker: Cluster
) -> None:
    server.api.faults.delay_seconds = 0.2
    server.api.requests.clear()
    before = server.objects.version
    creating = asyncio.create_task(worker.create_pod(request()))
    await wait_until(lambda: bool(server.api.requests))
    creating.cancel()
    server.api.faults.delay_seconds = 0
    with pytest.raises(asyncio.CancelledError):
        await creating
    await wait_until(lambda: server.objects.version > before and not worker.used_pods)
    assert not await worker.find_pods({JOB: "job_1"})


async def test_a_used_up_quota_is_waited_for_in_words(
    server: MemoryCluster, worker: Cluster
) -> None:
    server.api.faults.errors.append(ApiError(403, "Forbidden", QUOTA))
    notes: list[str] = []
    await worker.create_pod(request(), notes.append)
    assert notes == [f"waiting to create a pod: {QUOTA}"]


async def test_a_missing_permission_is_named(server: MemoryCluster, worker: Cluster) -> None:
    server.api.faults.forbidden.add(("create", "pods"))
    with pytest.raises(
        SandboxUnavailable,
        match="tests needs the permission to create pods in the namespace agents",
    ):
        await worker.create_pod(request())


async def test_a_pod_that_may_not_be_watched_says_so_until_it_may(
    server: MemoryCluster, worker: Cluster
) -> None:
    name = await worker.create_pod(request())
    server.api.faults.forbidden.add(("watch", "pods"))
    state = await follow(worker, name, lambda state: state.waiting)
    assert "may not watch pods in the namespace agents" in str(state.start_timeout(1))
    server.api.faults.forbidden.clear()
    assert (await follow(worker, name, is_running)).waiting == ""


async def test_pods_have_no_user_namespaces_where_a_trial_gets_none(
    server: MemoryCluster, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_namespaces, "_MAX_SECONDS", 0.1)
    monkeypatch.setitem(server.kubelet.unavailable_images, AGENT_IMAGE, "manifest unknown")
    automatic = dataclasses.replace(settings, user_namespaces="auto")
    async with Cluster.from_settings(automatic) as worker:
        assert not await user_namespaces.detect_user_namespaces(worker)
        assert not await worker.find_pods({})
        assert not worker.has_user_namespaces


async def test_a_wrong_credential_is_said(
    server: MemoryCluster, settings: ClusterSettings, tmp_path: Path
) -> None:
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "config").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(tmp_path / "config"))
        async with Cluster.from_settings(settings) as worker:
            with pytest.raises(
                SandboxUnavailable, match="does not accept this worker's credential"
            ):
                await worker.create_pod(request())


async def test_a_token_that_is_replaced_in_its_file_is_read_again(
    server: MemoryCluster, settings: ClusterSettings, tmp_path: Path
) -> None:
    config = json.loads(server.kubeconfig.read_text())
    token = tmp_path / "token"
    token.write_text(f"{server.api.token}\n")
    config["users"][0]["user"] = {"tokenFile": str(token)}
    (tmp_path / "config").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(tmp_path / "config"))
        async with Cluster.from_settings(settings) as worker:
            await worker.find_pods({})
            before, server.api.token = server.api.token, "rotated"
            try:
                token.write_text("rotated\n")
                name = await worker.create_pod(request())
                await follow(worker, name, is_running)
                await delete_orphans(worker)
                await worker.delete_pod(name)
            finally:
                server.api.token = before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "incomplete"),
        ("[]", "incomplete"),
        ("[" * 2000, "incomplete"),
        ("{", "while parsing"),
        ("clusters: 1", "incomplete"),
        ('{"clusters": [], "contexts": [], "current-context": "x"}', "x"),
        (kubeconfig("https://[::1"), "Invalid"),
        (kubeconfig("https://a\nb"), "Invalid"),
    ],
)
def test_an_unusable_kubeconfig_is_an_error_in_words(
    settings: ClusterSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    reason: str,
) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(SandboxUnavailable, match=f"usable access to a Kubernetes .*{reason}"):
        Cluster.from_settings(settings)


@pytest.mark.parametrize("output", ["[]", '{"status": null}', "{}", "no JSON"])
async def test_a_program_that_prints_no_credential_is_said(
    settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    version = "client.authentication.k8s.io/v1beta1"
    program = {"apiVersion": version, "command": "echo", "args": [output]}
    (tmp_path / "config").write_text(kubeconfig("https://127.0.0.1:1", exec=program))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    async with Cluster.from_settings(dataclasses.replace(settings, pending_seconds=0)) as worker:
        with pytest.raises(SandboxLost, match="this worker could not list pods"):
            await worker.find_pods({})


def test_a_missing_kubeconfig_is_named(
    settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SandboxUnavailable, match=f"{tmp_path}/none not found"):
        Cluster.from_settings(settings)
