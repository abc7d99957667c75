"""What a sandbox of pods does beyond what every sandbox guarantees."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings
from agentjobs.sandbox.kubernetes.sandbox import KubernetesSandbox
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.sandbox import SandboxHarness, eventually

NAMESPACE = "agents"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        cluster.create_namespace(NAMESPACE)
        yield cluster


@pytest.fixture
async def sandbox(
    cluster: MemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesSandbox]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    sandbox = KubernetesSandbox(settings(), tmp_path / "sandbox")
    yield sandbox
    await sandbox.close()
    await eventually(lambda: pod_names(cluster) == [])


@pytest.fixture
def harness(sandbox: KubernetesSandbox, tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(sandbox, tmp_path)


def settings(orphan_seconds: float = 20, pending_seconds: float = 60) -> ClusterSettings:
    return ClusterSettings(
        worker="worker-1",
        namespace=NAMESPACE,
        image="localhost/agentjobs-agent:test",
        user_namespaces="off",
        orphan_seconds=orphan_seconds,
        pending_seconds=pending_seconds,
    )


def pod_names(cluster: MemoryCluster) -> list[str]:
    pods = cluster.call(lambda: cluster.objects.list("pods", NAMESPACE))
    return [pod["metadata"]["name"] for pod in pods]


async def test_files_go_in_and_changes_come_back_also_after_a_timeout(
    harness: SandboxHarness,
) -> None:
    (harness.workspace / "kept").write_text("kept")
    (harness.workspace / "removed").write_text("removed")
    report = await harness.shell(
        "cat kept removed; rm removed; echo new > new; echo 1 > $AGENTJOBS_ARTIFACTS/a; sleep 100",
        timeout_seconds=0.5,
    )
    assert (report.timed_out, harness.output) == (True, b"keptremoved")
    assert sorted(path.name for path in harness.workspace.iterdir()) == ["kept", "new"]
    assert (harness.artifacts_dir / "a").read_text() == "1\n"


async def test_artifacts_come_back_after_a_cancellation(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    running = harness.start("echo 1 > $AGENTJOBS_ARTIFACTS/a; echo x > new; echo on; sleep 100")
    await harness.wait_for_output(b"on\n")
    running.cancel()
    await asyncio.wait({running})
    assert (harness.artifacts_dir / "a").read_text() == "1\n"
    assert not (harness.workspace / "new").exists()
