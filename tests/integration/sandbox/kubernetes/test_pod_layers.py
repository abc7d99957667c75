"""Layers in pods keep the promises that they keep in other sandboxes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath

import pytest

from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings
from agentjobs.sandbox.kubernetes.sandbox import KubernetesSandbox
from agentjobs.sandbox.mounts import HOME, ROOT, WORKSPACE
from agentjobs.sandbox.protocol import SandboxError
from tests.support.kubernetes.client import AGENT_IMAGE
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.sandbox import SandboxHarness
from tests.support.trees import describe_tree

NAMESPACE = "layers"
# A snapshot belongs to whoever built it.
BUILDER = 5
FILES = {"kept": "kept\n", "changed": "before\n", "deep/er/file": "deep\n"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        cluster.create_namespace(NAMESPACE)
        yield cluster


@pytest.fixture
async def harness(
    cluster: MemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SandboxHarness]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    settings = ClusterSettings(
        worker="worker-1",
        namespace=NAMESPACE,
        image=AGENT_IMAGE,
        user_namespaces="off",
    )
    sandbox = KubernetesSandbox(settings, tmp_path / "sandbox")
    yield SandboxHarness(sandbox, tmp_path)
    await sandbox.close()


async def test_what_a_pod_writes_is_in_its_own_directory_only(
    harness: SandboxHarness, tmp_path: Path
) -> None:
    snapshot = harness.snapshot(FILES, BUILDER)
    before = describe_tree(snapshot)
    other = SandboxHarness(harness.sandbox, tmp_path, slot=1)
    layers = [each.layer(HOME, snapshot, BUILDER) for each in (harness, other)]
    script = "cd; echo $$ > mine; rm changed; mv kept moved; rm -r deep; mkdir deep; ls -A . deep"
    reports = await asyncio.gather(
        harness.shell(script, layers=layers[:1]),
        other.shell("cat ~/changed ~/kept", layers=layers[1:]),
    )
    assert reports[0].last_lines.split() == [".:", "deep", "mine", "moved", "deep:"]
    assert reports[1].last_lines.split() == ["before", "kept"]
    assert describe_tree(snapshot) == before
    assert sorted(path.name for path in layers[0].upper.iterdir()) == ["deep", "mine", "moved"]
    assert list(layers[1].upper.iterdir()) == []


async def test_the_next_pod_with_the_same_layer_finds_what_was_written(
    harness: SandboxHarness,
) -> None:
    harness.use_layers()
    await harness.shell("rm kept ~/kept; echo new > written; echo new > ~/written")
    report = await harness.shell("ls -A . ~; cat written ~/written; rm ~/written")
    assert report.last_lines.split() == [
        *(".:", "written"),
        *("/home/agent:", "written"),
        *("new", "new"),
    ]
    assert (await harness.shell("ls -A ~")).last_lines == ""


async def test_the_workspace_keeps_its_files_beside_those_of_its_layer(
    harness: SandboxHarness,
) -> None:
    (harness.workspace / "tracked").write_text("tracked")
    harness.layers = (harness.layer(WORKSPACE, harness.snapshot(FILES, BUILDER), BUILDER),)
    report = await harness.shell("ls; echo changed > tracked; echo changed > kept")
    assert report.last_lines.split() == ["changed", "deep", "kept", "tracked"]
    assert (harness.workspace / "tracked").read_text() == "changed\n"
    assert (harness.workspace / "kept").read_text() == "changed\n"
    assert {path.name for path in harness.workspace.iterdir()} == {"kept", "tracked"}


@pytest.mark.parametrize("place", [ROOT, PurePosixPath("/usr")])
async def test_other_places_cannot_have_a_layer(
    harness: SandboxHarness, place: PurePosixPath
) -> None:
    layer = harness.layer(place, harness.private)
    with pytest.raises(SandboxError, match="can have one layer"):
        await harness.run("true", layers=(layer,))


async def test_a_directory_that_is_missing_is_named(harness: SandboxHarness) -> None:
    layer = harness.layer(HOME, harness.private / "lost")
    with pytest.raises(SandboxError, match=r"/lost"):
        await harness.run("true", layers=(layer,))
