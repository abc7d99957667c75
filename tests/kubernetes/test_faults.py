"""How a run ends when something happens to its pod."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.protocol import RootImage, SandboxLost, SandboxReport
from tests.kubernetes import node_faults
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.kubelet import NO_REGISTRY
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import ProcessMarker, SandboxHarness, eventually

MIB = 1024 * 1024
# On a busy machine.
_FAULT_SECONDS = 120


async def start(harness: SandboxHarness, script: str) -> tuple[asyncio.Task[SandboxReport], str]:
    """A run whose command has started, and the name of its pod."""
    running = harness.start(f"echo up; {script}")
    await harness.wait_for_output(b"up\n")
    assert isinstance(harness.sandbox, KubernetesSandbox)
    (pod,) = await harness.sandbox.cluster.find_pods({})
    return running, pod.name


async def check_lost(running: asyncio.Task[SandboxReport], marker: ProcessMarker) -> None:
    done, _ = await asyncio.wait({running}, timeout=_FAULT_SECONDS)
    assert done, "the run goes on"
    with pytest.raises(SandboxLost):
        running.result()
    await eventually(lambda: marker.processes() == [], 60)


@pytest.mark.parametrize(
    "harm",
    [
        node_faults.delete_pod,
        node_faults.evict,
        node_faults.kill_container,
        node_faults.kill_shim,
    ],
    ids=["deleted", "evicted", "container killed", "shim killed"],
)
async def test_a_run_is_lost_with_its_pod(
    cluster: Cluster, harness: SandboxHarness, harm: Callable[[Cluster, str, str], None]
) -> None:
    marker = ProcessMarker()
    running, pod = await start(harness, marker.sleeper())
    assert isinstance(harness.sandbox, KubernetesSandbox)
    namespace = harness.sandbox.cluster.settings.namespace
    await asyncio.to_thread(harm, cluster, pod, namespace)
    await check_lost(running, marker)


async def test_an_agent_that_takes_too_much_memory_exceeds_its_limit(
    harness: SandboxHarness,
) -> None:
    program = "hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"
    report = await harness.run("python3", "-c", program, limits=Limits(memory_bytes=128 * MIB))
    assert report.exceeded == "128 MiB of memory"


async def test_a_registry_that_is_away_is_waited_for_and_does_not_fail_the_environment(
    cluster: Cluster, tmp_path: Path
) -> None:
    image = RootImage(reference=f"{NO_REGISTRY}missing@sha256:{'0' * 64}")
    notes: list[str] = []
    async with pod_sandbox(cluster.kubeconfig, pending_seconds=60) as sandbox:
        harness = SandboxHarness(sandbox, tmp_path)
        with pytest.raises(SandboxLost, match="did not start within 60 seconds: the image"):
            await harness.run("true", image=image, on_note=notes.append)
    assert any("connection refused" in note for note in notes), notes
