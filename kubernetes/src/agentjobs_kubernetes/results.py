"""Brings back what a command left in its pod."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from agentjobs_kubernetes.channels import Channel, ChannelClosed
from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.download import Received, TransferLimits, download_changes
from agentjobs_kubernetes.layer_files import TaskDownload, task_downloads
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_runtime.sandboxes.directories import ARTIFACTS_DIRECTORY
from agentjobs_worker.sandbox.protocol import SandboxTask, UnusableResult

# For each directory.
TIMEOUT_SECONDS = 1_800
_EMPTY_BLOCK = bytes(512)
_MAX_CHARACTERS = 300


async def receive_results(supervisor: Supervisor, task: SandboxTask) -> str | None:
    """The limit that they exceed, as text. Raises SandboxError and ConnectionLost."""
    received_bytes = 0
    with contextlib.ExitStack() as stack:
        streams = [_open(supervisor, download, stack) for download in task_downloads(task)]
        for stream in streams:
            received = await _receive(stream, task, received_bytes)
            if received.exceeded is not None:
                return received.exceeded
            received_bytes += received.used_bytes
    return None


async def receive_artifacts(supervisor: Supervisor, task: SandboxTask) -> None:
    """Raises as `receive_results` does."""
    with contextlib.ExitStack() as stack:
        for download in task_downloads(task):
            if download.target == task.run_dir / ARTIFACTS_DIRECTORY:
                await _receive(_open(supervisor, download, stack), task, 0)


@dataclass(slots=True)
class _Stream:
    """A channel whose start was read already."""

    channel: Channel
    start: list[bytes] = field(default_factory=list)

    async def peek(self) -> bytes:
        self.start = [await self.channel.read()]
        return self.start[0]

    async def read(self) -> bytes:
        return self.start.pop() if self.start else await self.channel.read()

    def close(self) -> None:
        self.channel.close()


def _open(
    supervisor: Supervisor, download: TaskDownload, stack: contextlib.ExitStack
) -> tuple[TaskDownload, _Stream, _Stream]:
    """All are opened before the first is read, so that the pod looks for changes meanwhile."""
    path = str(download.inside)
    changes = supervisor.open(
        "download", path=path, changes=True, max_file_bytes=download.max_file_bytes
    )
    stack.callback(changes.close)
    deletions = supervisor.open("deletions", path=path)
    stack.callback(deletions.close)
    return download, _Stream(changes), _Stream(deletions)


async def _receive(
    stream: tuple[TaskDownload, _Stream, _Stream], task: SandboxTask, received_bytes: int
) -> Received:
    download, changes, deletions = stream
    limits = TransferLimits.of(task.limits, received_bytes)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            # Most commands change one directory: it takes a process to look at each.
            if not await deletions.peek() and (await changes.peek()).startswith(_EMPTY_BLOCK):
                return Received()
            return await download_changes(
                changes, deletions, download.target, limits, lower=download.lower
            )
    except TimeoutError:
        raise UnusableResult(f"it did not arrive within {TIMEOUT_SECONDS} seconds") from None
    except ChannelClosed as error:
        # Another attempt would fail, too.
        reason = ellipsize(single_line(str(error)), _MAX_CHARACTERS)
        raise UnusableResult(f"its files cannot be read: {reason}") from None
