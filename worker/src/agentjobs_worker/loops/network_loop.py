"""Warns if the network of the cluster ignores the policy that isolates agents' pods."""

from agentjobs_runtime.loop import PeriodicLoop
from agentjobs_worker.sandbox.clusters import ClusterSandbox, load_cluster

# Somebody may replace the network plugin of a running cluster.
_INTERVAL_SECONDS = 6 * 3600.0


def network_loop(sandbox: ClusterSandbox) -> PeriodicLoop:
    async def check() -> None:
        await load_cluster().check_network(sandbox)

    return PeriodicLoop("network policy", _INTERVAL_SECONDS, check)
