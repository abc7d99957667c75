"""Brings back what a command left in its pod."""

from agentjobs.sandbox.kubernetes.connection import Supervisor
from agentjobs.sandbox.kubernetes.download import Received, TransferLimits, download_changes
from agentjobs.sandbox.kubernetes.layer_files import TaskDownload, task_downloads
from agentjobs.sandbox.protocol import ARTIFACTS_DIRECTORY, SandboxTask


async def receive_results(supervisor: Supervisor, task: SandboxTask) -> str | None:
    """The limit that they exceed, as text. Raises SandboxError and ConnectionLost."""
    received_bytes = 0
    for download in task_downloads(task):
        received = await _receive(supervisor, task, download, received_bytes)
        if received.exceeded is not None:
            return received.exceeded
        received_bytes += received.used_bytes
    return None


async def receive_artifacts(supervisor: Supervisor, task: SandboxTask) -> None:
    """Raises as `receive_results` does."""
    for download in task_downloads(task):
        if download.target == task.run_dir / ARTIFACTS_DIRECTORY:
            await _receive(supervisor, task, download, 0)


async def _receive(
    supervisor: Supervisor, task: SandboxTask, download: TaskDownload, received_bytes: int
) -> Received:
    path = str(download.inside)
    return await download_changes(
        supervisor.open("download", path=path, changes=True),
        supervisor.open("deletions", path=path),
        download.target,
        TransferLimits.of(task.limits, received_bytes),
        lower=download.lower,
    )
