"""Finds out whether the cluster's network enforces the policy of agents; many ignore it."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.credentials import SUPERVISOR_PORT
from agentjobs_kubernetes.idle_task import idle_task
from agentjobs_kubernetes.messages import Dialed
from agentjobs_kubernetes.network_policy import ensure_network_policy
from agentjobs_kubernetes.pod_runs import PodRuns
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed
from agentjobs_worker.sandbox.protocol import SandboxError

_TIMEOUT_SECONDS = 120.0
_DIAL_SECONDS = 2
# Some networks apply policies to a pod only when it has been running for a while.
_LATE_SECONDS = 5.0
_METADATA = "169.254.169.254:80"
_KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True)
class NetworkProbe:
    """`explanation` says what to do if `is_enforced` is False."""

    is_enforced: bool
    explanation: str


async def probe_network(runs: PodRuns) -> NetworkProbe:
    """Dial a pod, the API servers and other addresses from a pod. Raises SandboxError."""
    await ensure_network_policy(runs.cluster)
    task = idle_task("network-probe", _TIMEOUT_SECONDS)
    async with (
        runs.connected(task, pending_seconds=_TIMEOUT_SECONDS) as other,
        runs.connected(task, pending_seconds=_TIMEOUT_SECONDS) as own,
    ):
        addresses = {
            _join(other.address, SUPERVISOR_PORT): "another pod",
            _METADATA: "the metadata of the cloud",
            **dict.fromkeys(await _api_servers(runs.cluster), "the API server"),
        }
        if own.pod.state.node_ip:
            addresses[_join(own.pod.state.node_ip, _KUBELET_PORT)] = "its node"
        at_first = await _dial(own.current, addresses)
        if not at_first:
            return explain_probe(addresses, at_first, at_first)
        await asyncio.sleep(_LATE_SECONDS)
        return explain_probe(addresses, at_first, await _dial(own.current, addresses))


def explain_probe(
    addresses: Mapping[str, str], at_first: set[str], later: set[str]
) -> NetworkProbe:
    """The sets are those of the addresses that accepted a connection."""
    if not at_first:
        tried = _name(addresses, set(addresses))
        return NetworkProbe(
            is_enforced=True,
            explanation=f"the cluster's network isolates pods: a probe could not reach {tried}",
        )
    if not later:
        return NetworkProbe(
            is_enforced=False,
            explanation=f"the cluster's network isolates pods too late: in its first seconds, a "
            f"probe could reach {_name(addresses, at_first)}; set the network plugin to apply "
            f"policies before a pod starts",
        )
    return NetworkProbe(
        is_enforced=False,
        explanation=f"the cluster's network does not enforce NetworkPolicies: a probe could reach "
        f"{_name(addresses, later)}, and so can agents; use a network plugin that enforces them, "
        f"such as Calico or Cilium",
    )


async def _dial(supervisor: Supervisor, addresses: Mapping[str, str]) -> set[str]:
    message = {"type": "dial", "addresses": list(addresses), "seconds": _DIAL_SECONDS}
    try:
        results = (await supervisor.request(message, Dialed)).results
    except (ConnectionLost, RequestFailed) as error:
        raise SandboxError(f"the probe of the cluster's network failed: {error}") from error
    return {address for address in addresses if results.get(address) == "open"}


async def _api_servers(cluster: Cluster) -> list[str]:
    """The addresses of the API server for pods, and for this worker."""
    server = urlsplit(cluster.client.config.cluster.server)
    places = [
        (os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")),
        (server.hostname, server.port or (443 if server.scheme == "https" else 80)),
    ]
    loop = asyncio.get_running_loop()
    addresses: list[str] = []
    for host, port in places:
        if host and port:
            with contextlib.suppress(OSError):
                infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses += (_join(*info[4][:2]) for info in infos[:1])
    return addresses


def _join(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _name(addresses: Mapping[str, str], chosen: set[str]) -> str:
    names = [f"{name} ({address})" for address, name in addresses.items() if address in chosen]
    return ", ".join(names)
