"""What a sandbox of pods does beyond what every sandbox guarantees."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from agentjobs_kubernetes import pod_connection, supervised_run
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_worker.sandbox.protocol import (
    ImageUnavailable,
    RootImage,
    RunOwner,
    SandboxError,
    SandboxLost,
    SandboxPort,
    SandboxUnavailable,
    UnusableResult,
)
from tests.support.kubernetes.client import AGENT_IMAGE
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.kubernetes.objects import Object
from tests.support.sandbox import ProcessMarker, SandboxHarness, eventually

NAMESPACE = "agents"
OWNER = RunOwner(organization_id="org_1", job_id="job_1", step="agent", fence=3)


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
    async with sandbox_with(tmp_path) as sandbox:
        yield sandbox
    await eventually(lambda: pods(cluster) == [], 60)
    assert not list((tmp_path / "sandbox").rglob("*.json"))


@pytest.fixture
def harness(sandbox: KubernetesSandbox, tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(sandbox, tmp_path)


@contextlib.asynccontextmanager
async def sandbox_with(directory: Path, **changes: Any) -> AsyncIterator[KubernetesSandbox]:
    settings = ClusterSettings(
        worker="worker-1",
        namespace=NAMESPACE,
        image=AGENT_IMAGE,
        user_namespaces="off",
        orphan_seconds=30,
        pending_seconds=60,
    )
    sandbox = KubernetesSandbox(dataclasses.replace(settings, **changes), directory / "sandbox")
    try:
        yield sandbox
    finally:
        await sandbox.close()


def pods(cluster: MemoryCluster) -> list[Object]:
    return cluster.call(lambda: cluster.objects.list("pods", NAMESPACE))


def pod_name(cluster: MemoryCluster) -> str:
    (pod,) = pods(cluster)
    return str(pod["metadata"]["name"])


async def test_changes_come_back_also_after_a_timeout(harness: SandboxHarness) -> None:
    (harness.workspace / "kept").write_text("kept")
    (harness.workspace / "removed").write_text("removed")
    report = await harness.shell(
        "cat kept removed; rm removed; echo new > new; echo 1 > $AGENTJOBS_ARTIFACTS/a; sleep 100",
        # Enough for a busy machine.
        timeout_seconds=2,
    )
    assert (report.timed_out, harness.output) == (True, b"keptremoved")
    assert sorted(path.name for path in harness.workspace.iterdir()) == ["kept", "new"]
    assert (harness.artifacts_dir / "a").read_text() == "1\n"


async def test_a_tree_too_deep_for_a_path_is_unusable(harness: SandboxHarness) -> None:
    script = "import os; n = '0' * 200\nfor _ in range(25): os.mkdir(n); os.chdir(n)"
    with pytest.raises(UnusableResult, match="longer than 4095 bytes"):
        await harness.run("python3", "-c", script)


async def test_artifacts_but_no_changes_come_back_after_a_cancellation(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_run, "ARTIFACTS_SECONDS", 60)
    running = harness.start("echo 1 > $AGENTJOBS_ARTIFACTS/a; echo x > new; echo on; sleep 100")
    await harness.wait_for_output(b"on\n")
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert (harness.artifacts_dir / "a").read_text() == "1\n"
    assert not (harness.workspace / "new").exists()


async def test_the_pod_shows_whose_run_it_is_and_no_secret_of_it(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    environment = {"SECRET": "not-for-the-cluster"}
    running = harness.start("echo on; sleep 100", owner=OWNER, environment=environment)
    await harness.wait_for_output(b"on\n")
    (pod,) = pods(cluster)
    assert pod["metadata"]["labels"]["agentjobs.dev/job"] == "job_1"
    (record,) = (harness.private.parent / "sandbox" / "runs").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    token = record.read_text().partition('"token":"')[2].partition('"')[0]
    assert len(token) >= 43
    assert token not in str(pod)
    assert "not-for-the-cluster" not in str(pod)
    running.cancel()
    await asyncio.wait({running})


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Supervisor]:
    """Connections that runs have made so far."""
    made: list[Supervisor] = []
    connect = pod_connection.connect

    async def record(*arguments: Any, **keywords: Any) -> Supervisor:
        made.append(await connect(*arguments, **keywords))
        return made[-1]

    monkeypatch.setattr(pod_connection, "connect", record)
    return made


async def test_a_run_survives_its_connections(
    harness: SandboxHarness, connections: list[Supervisor]
) -> None:
    numbers = 3_000
    running = harness.start(f"seq 1 {numbers}; sleep 1; seq 1 {numbers}; echo x > new")
    for count in range(1, 5):
        while len(connections) < count and not running.done():
            await asyncio.wait({running}, timeout=0.01)
        await asyncio.wait({running}, timeout=0.05)
        connections[-1].close()
    assert len(connections) > 1
    assert (await running).exit_code == 0
    lines = "".join(f"{number}\n" for number in range(1, numbers + 1))
    assert harness.output.decode() == lines * 2
    assert (harness.workspace / "new").read_text() == "x\n"


async def test_a_start_that_was_served_after_its_connection_was_lost_is_not_repeated(
    harness: SandboxHarness, connections: list[Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, connect = Supervisor.request, pod_connection.connect

    async def cut_at_start(self: Supervisor, message: Any, reply: Any) -> Any:
        answer = await request(self, message, reply)
        if message["type"] == "start" and self is connections[0]:
            self.close()
            raise self.lost.result()
        return answer

    async def late_hello(*arguments: Any, **keywords: Any) -> Supervisor:
        supervisor = await connect(*arguments, **keywords)
        if len(connections) == 2:
            supervisor.hello = msgspec.structs.replace(supervisor.hello, state="prepared")
        return supervisor

    monkeypatch.setattr(Supervisor, "request", cut_at_start)
    monkeypatch.setattr(pod_connection, "connect", late_hello)
    report = await harness.shell("echo run >> runs; sleep 0.5")
    assert (report.exit_code, len(connections)) == (0, 3)
    assert (harness.workspace / "runs").read_text() == "run\n"


async def test_connections_that_always_end_at_once_are_a_lost_sandbox(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = pod_connection.connect

    async def cut(*arguments: Any, **keywords: Any) -> Supervisor:
        supervisor = await connect(*arguments, **keywords)
        supervisor.close()
        return supervisor

    monkeypatch.setattr(pod_connection, "connect", cut)
    monkeypatch.setattr(pod_connection, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(pod_connection, "MAX_SHORT_CONNECTIONS", 3)
    with pytest.raises(SandboxLost, match="the connection was closed"):
        await harness.shell("true")


async def test_what_the_caller_raises_before_the_start_is_raised_unchanged(
    harness: SandboxHarness,
) -> None:
    async def before_start() -> None:
        raise FileNotFoundError("the claim is gone")

    with pytest.raises(FileNotFoundError, match="the claim is gone"):
        await harness.sandbox.run(harness.task("true"), harness.receive, before_start)


def test_a_run_on_the_event_loop_of_the_service(
    cluster: MemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))

    async def run() -> None:
        async with sandbox_with(tmp_path) as sandbox:
            harness = SandboxHarness(sandbox, tmp_path)
            report = await harness.shell("seq 1 100000; echo x > new; exit 5")
            assert report.exit_code == 5
            assert harness.output.count(b"\n") == 100_000
            assert (harness.workspace / "new").exists()

    uvloop.run(run())


async def test_an_api_server_that_is_away_does_not_matter_to_a_running_command(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    running = harness.start("echo on; sleep 0.2; echo x > new")
    await harness.wait_for_output(b"on\n")
    cluster.wait(cluster.api.stop())
    try:
        report = await running
    finally:
        cluster.wait(cluster.api.start())
    assert report.exit_code == 0
    assert (harness.workspace / "new").read_text() == "x\n"
    await eventually(lambda: pods(cluster) == [], 20)


async def test_a_cancelled_run_ends_its_agent_at_once_while_the_api_server_is_away(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    marker = ProcessMarker()
    running = harness.start(f"echo on; {marker.sleeper()}")
    await harness.wait_for_output(b"on\n")
    cluster.wait(cluster.api.stop())
    try:
        running.cancel()
        await eventually(lambda: marker.processes() == [])
        await asyncio.wait({running})
    finally:
        cluster.wait(cluster.api.start())
    await eventually(lambda: pods(cluster) == [], 20)


async def test_a_pod_that_somebody_deletes_is_a_lost_sandbox(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    running = harness.start("echo on; sleep 100")
    await harness.wait_for_output(b"on\n")
    name = pod_name(cluster)
    cluster.call(lambda: cluster.kubelet.pod(NAMESPACE, name).fail("Evicted", "low on memory"))
    with pytest.raises(SandboxLost, match="low on memory"):
        await running


async def test_a_pod_that_the_kernel_killed_for_its_memory_is_a_limit_of_the_agent(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    running = harness.start("echo on; sleep 100", limits=Limits(memory_bytes=64 * 1024**2))
    await harness.wait_for_output(b"on\n")
    name = pod_name(cluster)
    cluster.call(lambda: cluster.kubelet.pod(NAMESPACE, name).kill("OOMKilled"))
    report = await running
    assert (report.exceeded, report.exit_code, report.timed_out) == (
        "64 MiB of memory",
        None,
        False,
    )
    assert report.last_lines == "on"


async def test_an_image_that_cannot_be_fetched_is_said_in_words(
    harness: SandboxHarness, cluster: MemoryCluster
) -> None:
    image = RootImage(reference="registry.invalid/team/tools@sha256:" + "0" * 64)
    notes: list[str] = []
    cluster.kubelet.unavailable_images[image.reference] = "manifest unknown"
    with pytest.raises(ImageUnavailable, match="manifest unknown"):
        await harness.shell("true", image=image, on_note=notes.append)
    assert "manifest unknown" in notes[0]


async def test_a_pod_without_a_place_is_a_lost_sandbox_after_a_while(
    tmp_path: Path, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    notes: list[str] = []
    placement = Placement(node_selector={"disk": "fast"})
    async with sandbox_with(tmp_path, pending_seconds=2) as sandbox:
        harness = SandboxHarness(sandbox, tmp_path)
        with pytest.raises(SandboxLost, match="did not start within 2 seconds"):
            await harness.shell("true", placement=placement, on_note=notes.append)
    assert "no place" in notes[0]
    await eventually(lambda: pods(cluster) == [])


async def test_a_check_says_what_is_missing(
    sandbox: KubernetesSandbox, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.check()
    cluster.api.faults.forbidden.add(("create", "pods"))
    try:
        with pytest.raises(SandboxUnavailable, match="create a pod"):
            await sandbox.check()
    finally:
        cluster.api.faults.forbidden.clear()
    monkeypatch.setitem(cluster.kubelet.unavailable_images, AGENT_IMAGE, "manifest unknown")
    with pytest.raises(SandboxUnavailable, match="manifest unknown"):
        await sandbox.check()


async def test_access_that_a_worker_has_lost_since_its_check_is_a_lost_sandbox(
    harness: SandboxHarness, sandbox: KubernetesSandbox, cluster: MemoryCluster
) -> None:
    """A job must not fail for it: another worker may have access."""
    cluster.api.faults.forbidden.add(("create", "pods"))
    try:
        with pytest.raises(SandboxLost, match="needs the permission to create pods"):
            await harness.shell("true")
        with pytest.raises(SandboxLost, match="needs the permission to create pods"):
            await sandbox.find_programs(["sh"])
    finally:
        cluster.api.faults.forbidden.clear()


async def test_programs_are_those_of_the_image(
    sandbox: KubernetesSandbox, cluster: MemoryCluster
) -> None:
    image = RootImage(reference="registry.example/tools@sha256:" + "1" * 64)
    programs = await sandbox.find_programs(["sh", "no-such-program"], image=image)
    assert list(programs) == ["sh"]
    requests = len(cluster.api.requests)
    assert await sandbox.find_programs(["sh", "no-such-program"], image=image) == programs
    assert len(cluster.api.requests) == requests
    assert await sandbox.find_programs(["sh"], image=image, path="/nowhere") == {}


async def test_an_earlier_claim_of_the_job_has_ended_before_the_next_command_starts(
    harness: SandboxHarness, cluster: MemoryCluster, tmp_path: Path
) -> None:
    marker = ProcessMarker()
    running = harness.start(f"echo on; {marker.sleeper()}", owner=OWNER)
    await harness.wait_for_output(b"on\n")
    async with sandbox_with(tmp_path / "other", worker="worker-2") as other:
        next_harness = SandboxHarness(other, tmp_path, slot=1)
        owner = dataclasses.replace(OWNER, fence=4)
        script = "echo started"
        assert (await next_harness.shell(script, owner=owner)).exit_code == 0
        assert next_harness.output == b"started\n"
    with pytest.raises(SandboxLost):
        await running
    assert marker.processes() == []


class Address(asyncio.Protocol):
    """Says which address the client connected to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        host, port = transport.get_extra_info("sockname")
        transport.write(f"{host} {port}\n".encode())
        transport.close()


READ = """
import socket
for host in ("127.0.0.1", "other.example"):
    print(socket.create_connection((host, 443), 10).makefile().read(), end="")
"""


async def test_a_port_knows_the_address_that_the_agent_connected_to(
    harness: SandboxHarness,
) -> None:
    port = SandboxPort(number=443, protocol=Address)
    hosts = {"other.example": "127.88.0.1"}
    report = await harness.run("python3", "-c", READ, ports=(port,), hosts=hosts)
    assert report.last_lines.split("\n") == ["127.0.0.1 443", "127.88.0.1 443"]


async def test_a_port_without_a_protocol_is_refused(harness: SandboxHarness) -> None:
    port = SandboxPort(number=443, on_socket=lambda listener: listener.close())
    with pytest.raises(SandboxError, match="socket"):
        await harness.run("true", ports=(port,))


async def test_an_idle_run_costs_next_to_nothing(harness: SandboxHarness) -> None:
    running = harness.start("echo on; sleep 100")
    await harness.wait_for_output(b"on\n")
    before = time.thread_time()
    await asyncio.wait({running}, timeout=1.5)
    assert time.thread_time() - before < 0.3
    running.cancel()
    await asyncio.wait({running})
