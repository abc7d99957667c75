"""Finds out whether pods of the cluster can have user namespaces of their own."""

import asyncio
import contextlib
import logging

from lightkube.resources.core_v1 import Pod

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.idle_task import idle_task
from agentjobs_kubernetes.pods import PodRequest, pod_name

# Where it works, namespaces are there within a second of the pod's placement.
_MAX_SECONDS = 10.0
_MAX_PLACEMENT_SECONDS = 30.0

_log = logging.getLogger(__name__)


async def detect_user_namespaces(cluster: Cluster) -> bool:
    """Decides it for the pods that the cluster creates from now on, unless a setting did.

    A node that cannot do it leaves the pod without namespaces, and says why only in an event, which
    workers may not read. Raises as `Cluster.create_pod` does.
    """
    if cluster.settings.user_namespaces != "auto":
        return cluster.has_user_namespaces
    cluster.has_user_namespaces = await _try_pod(cluster)
    if not cluster.has_user_namespaces:
        _log.warning("Pods of agents have no user namespaces: no node that was tried supports them")
    return cluster.has_user_namespaces


async def _try_pod(cluster: Cluster) -> bool:
    request = PodRequest(
        name=pod_name("user-namespaces"),
        # The program may fail: only its namespaces matter.
        supervisor="",
        task=idle_task("", 60),
        has_user_namespace=True,
    )
    try:
        await cluster.create_pod(request)
        pod = await cluster.call(lambda: cluster.client.get(Pod, request.name), "get a pod")
        # An API server that does not know the field drops it.
        if pod.spec is None or pod.spec.hostUsers is not False:
            return False
        return await _gets_namespaces(cluster, request.name)
    finally:
        await cluster.delete_pod(request.name)


async def _gets_namespaces(cluster: Cluster, name: str) -> bool:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_MAX_PLACEMENT_SECONDS) as limit:
            async for state in cluster.watch_pod(name):
                if state.has_namespaces or state.ip:
                    return True
                if state.is_gone or state.has_ended:
                    return False
                if state.is_scheduled:
                    limit.reschedule(loop.time() + _MAX_SECONDS)
    return False
