"""Checks regularly whether this worker can use its cluster, and whether that isolates agents."""

import logging

from agentjobs_runtime.loop import PeriodicLoop
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.sandbox.clusters import ClusterSandbox, load_cluster
from agentjobs_worker.sandbox.protocol import SandboxError

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 5.0
# The network plugin of a running cluster may be replaced.
_NETWORK_SECONDS = 6 * 3600.0


def cluster_loop(sandbox: ClusterSandbox, worker: WorkerInfo) -> PeriodicLoop:
    return PeriodicLoop("cluster", _INTERVAL_SECONDS, lambda: check_cluster(sandbox, worker))


async def check_cluster(sandbox: ClusterSandbox, worker: WorkerInfo) -> None:
    """A job that is claimed meanwhile would only wait, where another worker may run it."""
    try:
        await sandbox.probe()
    except SandboxError as error:
        if not worker.sandbox_problem:
            _log.error("this worker starts no jobs: %s", error)
        worker.sandbox_problem = str(error)
        return
    if worker.sandbox_problem:
        _log.info("this worker starts jobs again: the cluster answers")
    worker.sandbox_problem = ""


def network_loop(sandbox: ClusterSandbox) -> PeriodicLoop:
    """Warns if the network of the cluster ignores the policy that isolates agents' pods."""

    async def check() -> None:
        await load_cluster().check_network(sandbox)

    return PeriodicLoop("network policy", _NETWORK_SECONDS, check)
