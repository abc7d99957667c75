"""Archives of layers on a volume of the cluster, which pods unpack instead of receiving them.

A record beside the lower directory of a layer names its archive. Without one, or if the archive is
gone, the layer is sent, and stored afterwards for the next pod.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.pod_connection import PodConnection
from agentjobs_kubernetes.pods import CachedLayer
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed, Stream
from agentjobs_kubernetes.upload import WritableStream, upload_tree
from agentjobs_runtime.files.copying import measure_tree
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import Layer, SandboxError, SandboxTask

_log = logging.getLogger(__name__)

# Smaller ones are sent as quickly as a pod with another container starts.
MIN_LAYER_BYTES = 32 * 1024**2
# After a failure, whose cause may be the volume.
PAUSE_SECONDS = 600.0
_SUFFIX = ".archive"


class Archive(msgspec.Struct, frozen=True):
    """`claim` is the volume that it was stored on."""

    claim: str
    sha256: str
    bytes: int


# A pod that can write the cache, near those of the task. Raises SandboxError.
Connect = Callable[[SandboxTask], AbstractAsyncContextManager[PodConnection]]


class LayerCache:
    """Does nothing if the settings name no claim."""

    def __init__(self, settings: ClusterSettings, connect: Connect) -> None:
        self._claim = settings.cache_claim
        self._max_bytes = settings.cache_max_bytes
        self._connect = connect
        self._tasks: dict[Path, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._paused_until = 0.0
        # Lower directories that are too small to store, or could not be stored.
        self._skipped_until: dict[Path, float] = {}

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await wait_despite_cancellation(*tasks)

    def find(self, task: SandboxTask) -> tuple[CachedLayer, ...]:
        """The archives that a pod for the task may unpack. Blocking, briefly."""
        if not self._claim or time.monotonic() < self._paused_until:
            return ()
        return tuple(
            CachedLayer(str(layer.inside), archive.sha256, archive.bytes)
            for layer in task.layers
            if (archive := self._archive(layer)) is not None
        )

    def pause(self) -> None:
        """Stop using the cache for a while, after a pod that should have used it was lost."""
        self._paused_until = time.monotonic() + PAUSE_SECONDS

    def store_missing(
        self, task: SandboxTask, requested: Collection[CachedLayer], unpacked: Collection[str]
    ) -> None:
        """Store layers in the background, one at a time. `unpacked` came from the cache."""
        if not self._claim:
            return
        missing = {layer.path for layer in requested} - set(unpacked)
        for layer in task.layers:
            if str(layer.inside) in missing:
                with contextlib.suppress(OSError):
                    record_path(layer.lower).unlink()
            if self._should_store(layer):
                self._tasks[layer.lower] = asyncio.create_task(self._store_layer(layer.lower, task))

    def _should_store(self, layer: Layer) -> bool:
        is_skipped = time.monotonic() < self._skipped_until.get(layer.lower, 0.0)
        return layer.lower not in self._tasks and not is_skipped and self._archive(layer) is None

    async def _store_layer(self, lower: Path, task: SandboxTask) -> None:
        try:
            async with self._turn:
                _, size_bytes = await asyncio.to_thread(measure_tree, lower)
                if size_bytes >= MIN_LAYER_BYTES:
                    archive = await self._store_archive(lower, task)
                    record_path(lower).write_bytes(msgspec.json.encode(archive))
                    return
        except (SandboxError, RequestFailed, ConnectionLost, OSError) as error:
            _log.warning("the layer %s is not cached: %s", lower, error)
        finally:
            del self._tasks[lower]
        self._skipped_until[lower] = time.monotonic() + PAUSE_SECONDS

    async def _store_archive(self, lower: Path, task: SandboxTask) -> Archive:
        async def send(stream: Stream) -> Archive:
            digesting = _DigestingStream(stream)
            await upload_tree(digesting, lower)
            return digesting.archive(self._claim)

        async with self._connect(task) as connection:
            return await connection.current.upload(send, "store", max_bytes=self._max_bytes)

    def _archive(self, layer: Layer) -> Archive | None:
        try:
            archive = msgspec.json.decode(record_path(layer.lower).read_bytes(), type=Archive)
        except (OSError, msgspec.MsgspecError):
            return None
        return archive if archive.claim == self._claim else None


class _DigestingStream:
    """Passes on what is written, and counts and digests it."""

    def __init__(self, stream: WritableStream) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._bytes = 0

    def archive(self, claim: str) -> Archive:
        return Archive(claim, self._digest.hexdigest(), self._bytes)

    async def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._bytes += len(data)
        await self._stream.write(data)


def record_path(lower: Path) -> Path:
    return lower.with_name(f"{lower.name}{_SUFFIX}")
