"""Brings back what a command left in its pod."""

import asyncio
import contextlib

from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.download import Received, TransferLimits, download_changes
from agentjobs_kubernetes.layer_files import TaskDownload, task_downloads
from agentjobs_kubernetes.stream import RequestFailed, Stream
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_runtime.sandboxes.directories import ARTIFACTS_DIRECTORY
from agentjobs_worker.sandbox.protocol import SandboxTask, UnusableResult

# For each directory.
TIMEOUT_SECONDS = 1_800
_MAX_CHARACTERS = 300


async def receive_results(supervisor: Supervisor, task: SandboxTask) -> str | None:
    """The limit that they exceed, as text. Raises SandboxError and ConnectionLost."""
    received_bytes = 0
    async with contextlib.AsyncExitStack() as stack:
        # All are opened before the first is read, so that the pod looks for changes meanwhile.
        streams = [
            (download, await stack.enter_async_context(_open(supervisor, download)))
            for download in task_downloads(task)
        ]
        for download, stream in streams:
            received = await _receive(stream, download, task, received_bytes)
            if received.exceeded is not None:
                return received.exceeded
            received_bytes += received.used_bytes
    return None


async def receive_artifacts(supervisor: Supervisor, task: SandboxTask) -> None:
    """Raises as `receive_results` does."""
    for download in task_downloads(task):
        if download.target == task.run_dir / ARTIFACTS_DIRECTORY:
            async with _open(supervisor, download) as stream:
                await _receive(stream, download, task, 0)


def _open(
    supervisor: Supervisor, download: TaskDownload
) -> contextlib.AbstractAsyncContextManager[Stream]:
    path, max_file_bytes = str(download.inside), download.max_file_bytes
    return supervisor.open("download", path=path, max_file_bytes=max_file_bytes)


async def _receive(
    stream: Stream, download: TaskDownload, task: SandboxTask, received_bytes: int
) -> Received:
    limits = TransferLimits.of(task.limits, received_bytes)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            start = await stream.read()
            # Most commands change one directory: it takes a process to look at each.
            if not start:
                return Received()
            return await download_changes(
                stream, download.target, limits, start=start, lower=download.lower
            )
    except TimeoutError:
        raise UnusableResult(f"it did not arrive within {TIMEOUT_SECONDS} seconds") from None
    except RequestFailed as error:
        # Another attempt would fail, too.
        reason = ellipsize(single_line(str(error)), _MAX_CHARACTERS)
        raise UnusableResult(f"its files cannot be read: {reason}") from None
