"""What the sandbox must know about the cluster that it runs pods on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
