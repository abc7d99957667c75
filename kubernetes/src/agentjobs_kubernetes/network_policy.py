"""The NetworkPolicy of agents: workers reach the supervisor of a pod, and nothing else passes."""

import logging

from httpx2 import HTTPStatusError
from lightkube.models import networking_v1 as networking
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.networking_v1 import NetworkPolicy

from agentjobs_kubernetes.api_errors import status_code
from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.credentials import SUPERVISOR_PORT
from agentjobs_kubernetes.labels import MANAGED_BY, MANAGER

POLICY_NAME = "agentjobs-agents"

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_CHANGED = (
    "The NetworkPolicy %s in the namespace %s was not the one of this worker, and was replaced. If "
    "this happens again and again, workers with other settings use the namespace, too, and cannot "
    "reach their pods: give them the same kubernetes_worker_labels and kubernetes_worker_cidrs, or "
    "another kubernetes_namespace"
)

_log = logging.getLogger(__name__)


async def ensure_network_policy(
    cluster: Cluster, give_up_seconds: float | None = None, *, replaces: bool = True
) -> None:
    """Create it, or change it back to what it should be. Raises as `Cluster.call` does.

    Without `replaces`, another policy of the name stays: during an upgrade, workers with other
    settings would replace those of each other all the time.
    """
    policy = network_policy(cluster.settings, cluster.own_namespace)

    async def ensure() -> None:
        try:
            current = await cluster.client.get(NetworkPolicy, POLICY_NAME)
        except HTTPStatusError as error:
            if status_code(error) != 404:
                raise
            await _create(cluster, policy)
            return
        if replaces and (current.spec != policy.spec or not _has_labels(current, policy)):
            assert current.metadata is not None
            assert policy.metadata is not None
            policy.metadata.resourceVersion = current.metadata.resourceVersion
            await cluster.client.replace(policy)
            _log.warning(_CHANGED, POLICY_NAME, cluster.settings.namespace)

    action = "ensure the network policy of agents"
    await cluster.call(ensure, action, give_up_seconds=give_up_seconds)


def network_policy(settings: ClusterSettings, own_namespace: str) -> NetworkPolicy:
    """`own_namespace` is that of the pod which this worker runs in, or empty."""
    return NetworkPolicy(
        metadata=ObjectMeta(
            name=POLICY_NAME, namespace=settings.namespace, labels={MANAGED_BY: MANAGER}
        ),
        spec=networking.NetworkPolicySpec(
            podSelector=LabelSelector(matchLabels={MANAGED_BY: MANAGER}),
            policyTypes=["Ingress", "Egress"],
            ingress=[
                networking.NetworkPolicyIngressRule(
                    # Without peers anybody may connect; the supervisor still wants a token.
                    from_=_workers(settings, own_namespace) or None,
                    ports=[networking.NetworkPolicyPort(port=SUPERVISOR_PORT, protocol="TCP")],
                )
            ],
        ),
    )


def _workers(settings: ClusterSettings, own_namespace: str) -> list[networking.NetworkPolicyPeer]:
    blocks = [
        networking.NetworkPolicyPeer(ipBlock=networking.IPBlock(cidr=cidr))
        for cidr in settings.worker_cidrs
    ]
    if not settings.worker_labels and not own_namespace:
        return blocks
    namespaces = {_NAMESPACE_NAME: own_namespace} if own_namespace else None
    labels = dict(settings.worker_labels) or None
    pods = networking.NetworkPolicyPeer(
        namespaceSelector=LabelSelector(matchLabels=namespaces),
        podSelector=LabelSelector(matchLabels=labels) if labels else None,
    )
    return [pods, *blocks]


async def _create(cluster: Cluster, policy: NetworkPolicy) -> None:
    try:
        await cluster.client.create(policy)
    except HTTPStatusError as error:
        # Another worker was faster.
        if status_code(error) != 409:
            raise


def _has_labels(current: NetworkPolicy, policy: NetworkPolicy) -> bool:
    labels = (current.metadata and current.metadata.labels) or {}
    expected = (policy.metadata and policy.metadata.labels) or {}
    return labels.items() >= expected.items()
