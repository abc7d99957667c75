"""A worker that was killed leaves its command running; the next one continues it."""

import asyncio
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.runs import RunRecords
from agentjobs_worker.sandbox.protocol import RunOwner, SandboxLost
from tests.support.kubernetes.client import AGENT_IMAGE
from tests.support.kubernetes.killed_worker import WorkerPlan, plan_sandbox, plan_task
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.sandbox import eventually

NAMESPACE = "agents"
# The second half of the output and the results wait for whoever reads them.
SCRIPT = """
echo run >> runs; echo first; rm removed
while [ ! -e /tmp/go ]; do sleep 0.05; [ $((n += 1)) -gt 15 ] && touch /tmp/go; done
seq 1 1000; echo 1 > $AGENTJOBS_ARTIFACTS/a
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        cluster.create_namespace(NAMESPACE)
        yield cluster


@pytest.fixture
def plan(cluster: MemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerPlan:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    checkout(tmp_path / "first")
    return WorkerPlan(
        settings=ClusterSettings(
            worker="worker-1",
            namespace=NAMESPACE,
            image=AGENT_IMAGE,
            user_namespaces="off",
            orphan_seconds=30,
        ),
        directory=str(tmp_path / "sandbox"),
        workspace=str(tmp_path / "first" / "workspace"),
        run_dir=str(tmp_path / "first" / "run"),
        owner=RunOwner(organization_id="org_1", job_id="job_1", step="agent", fence=3),
        script=SCRIPT,
    )


def checkout(directory: Path) -> None:
    """As each attempt of a job finds it."""
    (directory / "workspace").mkdir(parents=True)
    (directory / "workspace" / "removed").touch()
    for name in ("report", "artifacts"):
        (directory / "run" / name).mkdir(parents=True)


async def kill_worker(plan: WorkerPlan) -> None:
    """When its command has said something."""
    arguments = ("-m", "tests.support.kubernetes.killed_worker", msgspec.json.encode(plan))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"first\n"
    worker.kill()
    await worker.wait()


def successor(plan: WorkerPlan, base: Path) -> WorkerPlan:
    checkout(base / "second")
    owner = dataclasses.replace(plan.owner, fence=4, continues=3)
    return msgspec.structs.replace(
        plan,
        owner=owner,
        workspace=str(base / "second" / "workspace"),
        run_dir=str(base / "second" / "run"),
    )


async def test_the_next_worker_gets_the_rest_of_the_output_and_the_results(
    plan: WorkerPlan, cluster: MemoryCluster, tmp_path: Path
) -> None:
    await kill_worker(plan)
    second = successor(plan, tmp_path)
    sandbox = plan_sandbox(second)
    output = bytearray()

    async def never() -> None:
        raise AssertionError("the command has started already")

    report = await sandbox.run(plan_task(second), output.extend, never)
    await sandbox.close()
    assert report.exit_code == 0
    # What the dead worker did not acknowledge comes again.
    assert output.removeprefix(b"first\n") == b"".join(b"%d\n" % n for n in range(1, 1001))
    workspace = tmp_path / "second" / "workspace"
    assert [path.name for path in workspace.iterdir()] == ["runs"]
    assert (workspace / "runs").read_text() == "run\n"
    assert (tmp_path / "second" / "run" / "artifacts" / "a").read_text() == "1\n"
    await eventually(lambda: cluster.call(lambda: cluster.objects.list("pods", NAMESPACE)) == [])
    assert RunRecords(Path(plan.directory) / "runs").pods() == set()


async def test_a_command_that_is_gone_is_lost_and_never_run_again(
    plan: WorkerPlan, cluster: MemoryCluster, tmp_path: Path
) -> None:
    await kill_worker(plan)
    (pod,) = cluster.call(lambda: cluster.objects.list("pods", NAMESPACE))
    name = pod["metadata"]["name"]
    cluster.call(lambda: cluster.kubelet.pod(NAMESPACE, name).fail("Evicted", "low on memory"))
    second = successor(plan, tmp_path)
    sandbox = plan_sandbox(second)
    for reason in ("low on memory", "left no record"):
        with pytest.raises(SandboxLost, match=reason):
            await sandbox.run(plan_task(second), print)
    await sandbox.close()
    assert cluster.call(lambda: cluster.objects.list("pods", NAMESPACE)) == []


async def test_a_new_claim_of_the_same_worker_ends_the_command_of_the_old_one(
    plan: WorkerPlan, cluster: MemoryCluster, tmp_path: Path
) -> None:
    await kill_worker(plan)
    second = successor(plan, tmp_path)
    owner = dataclasses.replace(second.owner, continues=0)
    second = msgspec.structs.replace(second, owner=owner, script="echo again")
    sandbox = plan_sandbox(second)
    output = bytearray()
    assert (await sandbox.run(plan_task(second), output.extend)).exit_code == 0
    await sandbox.close()
    assert output == b"again\n"
    await eventually(lambda: cluster.call(lambda: cluster.objects.list("pods", NAMESPACE)) == [])
    assert RunRecords(Path(plan.directory) / "runs").pods() == set()


async def test_an_unreadable_record_is_no_record(plan: WorkerPlan, tmp_path: Path) -> None:
    records = RunRecords(tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "broken.json").write_text("{")
    assert records.find("job_1", "agent", 3) is None
    assert records.pods() == set()
