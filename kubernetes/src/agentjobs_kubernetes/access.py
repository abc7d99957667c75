"""What the API server lets this worker do, for `agentjobs doctor`."""

from collections.abc import Mapping, Sequence

import msgspec
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.core_v1 import Secret

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.labels import MANAGED_BY, MANAGER

# By API group and resource, all in the namespace of agents.
PERMISSIONS: Mapping[tuple[str, str], Sequence[str]] = {
    ("", "pods"): ("create", "get", "list", "watch", "delete"),
    ("", "secrets"): ("create",),
    ("networking.k8s.io", "networkpolicies"): ("get", "create", "update"),
}
# Secrets of the cluster itself, which hold nothing of others.
_OWN_SECRET_TYPES = ("kubernetes.io/service-account-token",)


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion", default="")


async def server_version(cluster: Cluster) -> str:
    """The version, such as `v1.34.4`. Raises as `Cluster.call` does."""

    async def read() -> str:
        # lightkube has no call for what is not a resource.
        response = await cluster.client._client._client.get("/version")
        response.raise_for_status()
        return msgspec.json.decode(response.content, type=_Version).git_version

    return await cluster.call(read, "ask for the version of the cluster")


async def missing_permissions(cluster: Cluster) -> list[str]:
    """Missing permissions, such as `delete pods`. Raises as `Cluster.call` does."""
    return [
        f"{verb} {resource}"
        for (group, resource), verbs in PERMISSIONS.items()
        for verb in verbs
        if not await _may(cluster, group, resource, verb)
    ]


async def foreign_secrets(cluster: Cluster) -> list[str]:
    """Secrets beside the agents that are not theirs; none if this worker may not see them."""
    if not await _may(cluster, "", "secrets", "list"):
        return []

    async def list_secrets() -> list[str]:
        secrets = cluster.client.list(Secret, namespace=cluster.settings.namespace)
        return sorted([str(_name(secret)) async for secret in secrets if not _is_own(secret)])

    return await cluster.call(list_secrets, "list secrets")


async def _may(cluster: Cluster, group: str, resource: str, verb: str) -> bool:
    attributes = ResourceAttributes(
        group=group, namespace=cluster.settings.namespace, resource=resource, verb=verb
    )
    spec = SelfSubjectAccessReviewSpec(resourceAttributes=attributes)

    async def ask() -> bool:
        review = await cluster.client.create(SelfSubjectAccessReview(spec=spec))
        return review.status is not None and review.status.allowed

    return await cluster.call(ask, "ask for its permissions")


def _name(secret: Secret) -> str | None:
    return None if secret.metadata is None else secret.metadata.name


def _is_own(secret: Secret) -> bool:
    labels = (secret.metadata and secret.metadata.labels) or {}
    return labels.get(MANAGED_BY) == MANAGER or secret.type in _OWN_SECRET_TYPES
