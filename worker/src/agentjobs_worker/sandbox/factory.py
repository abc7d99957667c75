"""Creates the sandbox that the setting `sandbox` names."""

import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import KIB
from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.clusters import ClusterSandbox, load_cluster
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import Sandbox
from agentjobs_worker.sandbox.worker_identity import WorkerIdentity


@contextlib.asynccontextmanager
async def open_sandbox(
    settings: Settings, identity: WorkerIdentity | None = None
) -> AsyncIterator[Sandbox]:
    """`identity` is that of a worker with agents in pods."""
    if identity is not None:
        opening = load_cluster().open_sandbox(settings, identity.id, identity.directory)
        async with opening as pods:
            yield pods
        return
    disk_floor_bytes = settings.disk_floor_mib * 1024 * KIB
    if settings.has_sandbox:
        yield BubblewrapSandbox(settings.sandbox_uid_base, disk_floor_bytes=disk_floor_bytes)
    else:
        yield ProcessSandbox(disk_floor_bytes=disk_floor_bytes)


@contextlib.asynccontextmanager
async def open_trial_pods(settings: Settings) -> AsyncIterator[ClusterSandbox]:
    """A sandbox for a command that runs beside a worker."""
    with tempfile.TemporaryDirectory(prefix="agentjobs-trial-") as directory:
        worker = f"trial-{secrets.token_hex(8)}"
        async with load_cluster().open_sandbox(settings, worker, Path(directory)) as pods:
            yield pods
