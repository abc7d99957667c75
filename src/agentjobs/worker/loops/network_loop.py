"""Warns if the network of the cluster ignores the policy that isolates agents' pods."""

import logging
from typing import TYPE_CHECKING

from agentjobs.loops.loop import PeriodicLoop
from agentjobs.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from agentjobs.sandbox.kubernetes.sandbox import KubernetesSandbox

_log = logging.getLogger(__name__)
# Somebody may replace the network plugin of a running cluster.
_INTERVAL_SECONDS = 6 * 3600.0


def network_loop(sandbox: "KubernetesSandbox") -> PeriodicLoop:
    return PeriodicLoop("network policy", _INTERVAL_SECONDS, lambda: check_network(sandbox))


async def check_network(sandbox: "KubernetesSandbox") -> None:
    from agentjobs.sandbox.kubernetes.network_probe import (  # noqa: PLC0415 - for clusters only
        probe_network,
    )

    try:
        probe = await probe_network(sandbox.cluster)
    except SandboxError as error:
        _log.warning("whether the network isolates agents is unknown: %s", error)
        return
    if probe.is_enforced:
        _log.info("%s", probe.explanation)
    else:
        _log.error("AGENTS ARE NOT ISOLATED FROM THE NETWORK: %s", probe.explanation)
