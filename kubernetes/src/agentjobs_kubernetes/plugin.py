"""What a worker finds by the entry point `kubernetes`: see `agentjobs_worker.sandbox.clusters`."""

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.description import describe_pods
from agentjobs_kubernetes.network_probe import probe_network
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_kubernetes.worker_files import is_copied
from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.protocol import SandboxError

__all__ = ["check_network", "describe", "is_copied", "open_sandbox"]

_log = logging.getLogger(__name__)
describe = describe_pods


@contextlib.asynccontextmanager
async def open_sandbox(
    settings: Settings, worker: str, directory: Path
) -> AsyncIterator[KubernetesSandbox]:
    sandbox = KubernetesSandbox(ClusterSettings.from_settings(settings, worker), directory)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def check_network(sandbox: KubernetesSandbox) -> None:
    try:
        probe = await probe_network(sandbox.runs)
    except SandboxError as error:
        _log.warning("whether the network isolates agents is unknown: %s", error)
        return
    if probe.is_enforced:
        _log.info("%s", probe.explanation)
    else:
        _log.error("AGENTS ARE NOT ISOLATED FROM THE NETWORK: %s", probe.explanation)
