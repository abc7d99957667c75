"""When layers are looked for in the cache, and when they are stored."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from agentjobs_kubernetes import layer_cache
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.layer_cache import Archive, LayerCache, record_path
from agentjobs_kubernetes.pod_connection import PodConnection
from agentjobs_kubernetes.pods import CachedLayer
from agentjobs_runtime.sandboxes.directories import HOME
from agentjobs_worker.sandbox.protocol import Layer, SandboxError, SandboxTask

CLAIM = "cache"
ARCHIVE = Archive(claim=CLAIM, sha256="0" * 64, bytes=5)
CACHED = CachedLayer(str(HOME), ARCHIVE.sha256, ARCHIVE.bytes)


class NoPods:
    """A cluster whose volume cannot be used; counts who tried."""

    def __init__(self) -> None:
        self.attempts = 0

    @contextlib.asynccontextmanager
    async def connect(self, _task: SandboxTask) -> AsyncIterator[PodConnection]:
        self.attempts += 1
        raise SandboxError("the volume is not bound")
        yield


@pytest.fixture
def pods() -> NoPods:
    return NoPods()


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    (tmp_path / "lower").mkdir()
    (tmp_path / "upper").mkdir()
    (tmp_path / "lower" / "file").write_text("text")
    return tmp_path / "lower"


@pytest.fixture
def task(lower: Path) -> SandboxTask:
    return SandboxTask(
        argv=("true",),
        environment={},
        workspace=lower.parent,
        run_dir=lower.parent,
        timeout_seconds=1,
        slot=0,
        layers=(Layer(inside=HOME, lower=lower, upper=lower.parent / "upper"),),
    )


def cache(pods: NoPods, claim: str = CLAIM) -> LayerCache:
    settings = ClusterSettings(worker="w1", image="localhost/agent:1", cache_claim=claim)
    return LayerCache(settings, pods.connect)


def save(lower: Path) -> None:
    record_path(lower).write_bytes(msgspec.json.encode(ARCHIVE))


async def finish() -> None:
    """Whatever was started in the background."""
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def test_only_what_was_stored_on_this_volume_is_looked_for(
    pods: NoPods, lower: Path, task: SandboxTask
) -> None:
    assert cache(pods).find(task) == ()
    save(lower)
    assert cache(pods).find(task) == (CACHED,)
    assert cache(pods, "other").find(task) == ()
    assert cache(pods, "").find(task) == ()
    record_path(lower).write_text("{")
    assert cache(pods).find(task) == ()


async def test_nothing_is_looked_for_after_a_pod_was_lost(
    pods: NoPods, lower: Path, task: SandboxTask
) -> None:
    save(lower)
    layers = cache(pods)
    layers.pause()
    assert layers.find(task) == ()


async def test_a_layer_that_cannot_be_stored_is_not_tried_again_at_once(
    pods: NoPods, task: SandboxTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_cache, "MIN_LAYER_BYTES", 1)
    layers = cache(pods)
    for _ in range(3):
        layers.store_missing(task, (), ())
        layers.store_missing(task, (), ())
        await finish()
    assert pods.attempts == 1


async def test_small_layers_are_not_stored(pods: NoPods, task: SandboxTask) -> None:
    cache(pods).store_missing(task, (), ())
    await finish()
    assert pods.attempts == 0


async def test_an_archive_that_the_volume_lost_is_forgotten(
    pods: NoPods, lower: Path, task: SandboxTask
) -> None:
    save(lower)
    cache(pods).store_missing(task, (CACHED,), (str(HOME),))
    assert record_path(lower).exists()
    cache(pods).store_missing(task, (CACHED,), ())
    assert not record_path(lower).exists()
    await finish()
