"""Layers come from the cache volume if it has them, and from the worker if not."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs_kubernetes import layer_cache
from agentjobs_kubernetes.layer_cache import record_path
from agentjobs_runtime.sandboxes.directories import HOME, WORKSPACE
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness, eventually

CLAIM = "cache"
# A snapshot belongs to whoever built it.
BUILDER = 5
STORE_SECONDS = 60


@pytest.fixture(scope="module")
def memory() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        yield cluster


@pytest.fixture
def kubeconfig(memory: MemoryCluster) -> Path:
    return memory.kubeconfig


@pytest.fixture
def volume(memory: MemoryCluster) -> Iterator[Path]:
    """The directory of the claim, empty."""
    path = memory.kubelet.directory / CLAIM
    path.mkdir()
    path.chmod(0o777)
    yield path
    for archive in path.iterdir():
        archive.unlink()
    path.rmdir()


@pytest.fixture
async def harness(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SandboxHarness]:
    monkeypatch.setattr(layer_cache, "MIN_LAYER_BYTES", 1)
    async with pod_sandbox(kubeconfig, cache_claim=CLAIM) as sandbox:
        yield SandboxHarness(sandbox, tmp_path)


async def store(harness: SandboxHarness, lower: Path) -> dict[str, Any]:
    """The record of the archive, which the first run leaves in the background."""
    await harness.run("true", layers=(harness.layer(HOME, lower, BUILDER),))
    await eventually(record_path(lower).exists, STORE_SECONDS)
    record: dict[str, Any] = json.loads(record_path(lower).read_bytes())
    return record


async def test_the_next_pod_gets_a_layer_from_the_volume_and_cannot_see_others(
    harness: SandboxHarness, volume: Path
) -> None:
    lower = harness.snapshot(
        {"kept": "stored\n", "changed": "lower\n", "deep/file": "x\n"}, BUILDER
    )
    record = await store(harness, lower)
    assert [path.name for path in volume.iterdir()] == [record["sha256"]]
    # Only the volume has the former content now.
    (lower / "kept").write_text("sent\n")
    (harness.workspace / "changed").write_text("upper\n")
    (harness.workspace / "deep").write_text("a file\n")
    layers = (harness.layer(HOME, lower, BUILDER), harness.layer(WORKSPACE, lower, BUILDER))
    script = "cat ~/kept ~/deep/file changed deep; ls -A / ~ | grep -e cache -e mine; echo > ~/mine"
    report = await harness.shell(script, layers=layers)
    assert report.last_lines.split("\n") == ["stored", "x", "upper", "a file"]
    assert [path.name for path in layers[0].upper.iterdir()] == ["mine"]


async def test_what_an_earlier_run_deleted_does_not_come_back(
    harness: SandboxHarness, volume: Path
) -> None:
    lower = harness.snapshot({"kept": "kept", "deleted": "x"}, BUILDER)
    await store(harness, lower)
    layers = (harness.layer(HOME, lower, BUILDER),)
    await harness.shell("rm ~/deleted", layers=layers)
    report = await harness.shell("ls -A ~", layers=layers)
    assert report.last_lines == "kept"
    assert len(list(volume.iterdir())) == 1


async def test_a_damaged_archive_is_not_used_and_replaced(
    harness: SandboxHarness, volume: Path
) -> None:
    lower = harness.snapshot({"kept": "right\n", "other": "x\n"}, BUILDER)
    record = await store(harness, lower)
    archive = volume / record["sha256"]
    right = archive.read_bytes()
    archive.write_bytes(right.replace(b"right", b"wrong"))
    report = await harness.shell("cat ~/kept", layers=(harness.layer(HOME, lower, BUILDER),))
    assert report.last_lines == "right"
    await eventually(lambda: archive.exists() and archive.read_bytes() == right, STORE_SECONDS)
    await eventually(record_path(lower).exists, STORE_SECONDS)


async def test_a_volume_that_cannot_be_written_means_no_cache(
    harness: SandboxHarness, volume: Path, caplog: pytest.LogCaptureFixture
) -> None:
    volume.chmod(0o555)
    lower = harness.snapshot({"kept": "kept"}, BUILDER)
    for _ in range(2):
        layers = (harness.layer(HOME, lower, BUILDER),)
        assert (await harness.shell("cat ~/kept", layers=layers)).last_lines == "kept"
    await eventually(lambda: "is not cached" in caplog.text, STORE_SECONDS)
    assert "permission denied" in caplog.text
    assert not record_path(lower).exists()
