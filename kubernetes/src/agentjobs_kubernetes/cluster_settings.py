"""What the sandbox must know about the cluster that it runs pods on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, cast

from agentjobs_runtime.settings import Settings

UserNamespaces = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """`worker` is the id of the worker's data directory, which survives restarts.

    Workers are found by `worker_labels` if they are pods, and by `worker_cidrs` otherwise.
    """

    worker: str
    namespace: str = "agentjobs-agents"
    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    user_namespaces: UserNamespaces = "auto"
    pending_seconds: float = 600
    # The PersistentVolumeClaim of the cache; empty: there is none.
    cache_claim: str = ""
    cache_max_bytes: int = 20 * 1024**3
    worker_labels: Mapping[str, str] = field(default_factory=dict)
    worker_cidrs: tuple[str, ...] = ()
    uid_base: int = 900_000
    orphan_seconds: float = 30

    @classmethod
    def from_settings(cls, settings: Settings, worker: str) -> Self:
        labels = (text.partition("=") for text in settings.kubernetes_worker_labels)
        return cls(
            worker=worker,
            namespace=settings.kubernetes_namespace,
            image=settings.effective_kubernetes_image,
            image_pull_policy=settings.kubernetes_image_pull_policy,
            image_pull_secrets=tuple(settings.kubernetes_image_pull_secrets),
            user_namespaces=cast("UserNamespaces", settings.kubernetes_user_namespaces.lower()),
            pending_seconds=settings.kubernetes_pending_seconds,
            cache_claim=settings.kubernetes_cache_claim,
            cache_max_bytes=settings.kubernetes_cache_max_bytes,
            worker_labels={key: value for key, _, value in labels},
            worker_cidrs=tuple(settings.kubernetes_worker_cidrs),
            uid_base=settings.sandbox_uid_base,
            orphan_seconds=settings.orphan_seconds,
        )
