"""Removes what dead workers left in the cluster. Never touches what a living one uses."""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.labels import JOB, WORKER, label_value
from agentjobs_kubernetes.network_policy import ensure_network_policy
from agentjobs_kubernetes.pod_status import PodState
from agentjobs_worker.sandbox.protocol import RunOwner

# The worker of an ended pod may still read its state. Clocks may differ by much of this too.
_GRACE_SECONDS = 600
_SWEEP_SECONDS = 300

_log = logging.getLogger(__name__)


async def delete_orphans(cluster: Cluster, keep: Collection[str] = ()) -> list[str]:
    """The names of the pods. `keep`: those that this worker may adopt.

    Raises as `Cluster.find_pods` does.
    """
    pods = await cluster.find_pods({})
    now = datetime.now(UTC)
    used = {*keep, *cluster.used_pods}
    orphans = [pod.name for pod in pods if is_orphan(pod, cluster.settings, used, now)]
    for name in orphans:
        _log.info("Deleting the pod %s, which no worker uses", name)
        await cluster.delete_pod(name)
    return orphans


async def delete_superseded(
    cluster: Cluster, owner: RunOwner, keep: Collection[str] = ()
) -> list[str]:
    """The pods of earlier claims of the job: whoever has the lease ends them."""
    if not owner.job_id:
        return []
    pods = await cluster.find_pods({JOB: owner.job_id})
    names = [pod.name for pod in pods if pod.fence < owner.fence and pod.name not in keep]
    for name in names:
        _log.info("Deleting the pod %s of an earlier claim of the job", name)
        await cluster.delete_pod(name)
    return names


def is_orphan(
    pod: PodState, settings: ClusterSettings, used: Collection[str], now: datetime
) -> bool:
    if pod.name in used:
        return False
    if pod.labels.get(WORKER) == label_value(settings.worker):
        return True
    # The supervisor of a dead worker's pod ends by itself, unless it never started.
    age = _age_seconds(pod.ended_at or pod.created_at, now)
    if pod.has_ended:
        return age > _GRACE_SECONDS
    return not pod.ip and age > 2 * settings.pending_seconds + _GRACE_SECONDS


def _age_seconds(moment: datetime | None, now: datetime) -> float:
    return (now - moment).total_seconds() if moment else 0


async def sweep_regularly(cluster: Cluster, names_to_keep: Callable[[], Collection[str]]) -> None:
    """Delete orphans and restore the network policy, at once and then every few minutes."""
    while True:
        try:
            await delete_orphans(cluster, names_to_keep())
            await ensure_network_policy(cluster)
        except Exception as error:  # noqa: BLE001 - it must run as long as the worker
            _log.warning("The namespace of agents was not checked: %s", error)
        await asyncio.sleep(_SWEEP_SECONDS)
