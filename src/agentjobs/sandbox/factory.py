"""Creates the sandbox that the setting `sandbox` names."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import KIB
from agentjobs.sandbox.process import ProcessSandbox
from agentjobs.sandbox.protocol import Sandbox, SandboxUnavailable
from agentjobs.sandbox.worker_identity import WorkerIdentity
from agentjobs.settings import Settings

if TYPE_CHECKING:
    from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings, UserNamespaces


def sandbox_for(settings: Settings, identity: WorkerIdentity | None = None) -> Sandbox:
    """`identity` is that of a worker with agents in pods. Raises SandboxUnavailable."""
    if identity is not None:
        raise SandboxUnavailable('sandbox = "kubernetes" is not part of this version yet')
    disk_floor_bytes = settings.disk_floor_mib * 1024 * KIB
    if not settings.has_sandbox:
        return ProcessSandbox(disk_floor_bytes=disk_floor_bytes)
    return BubblewrapSandbox(settings.sandbox_uid_base, disk_floor_bytes=disk_floor_bytes)


@contextlib.asynccontextmanager
async def trial_sandbox(settings: Settings) -> AsyncIterator[Sandbox]:
    """Pods for a command beside a worker, which keeps its own. Raises SandboxUnavailable."""
    if settings.uses_kubernetes:
        raise SandboxUnavailable('sandbox = "kubernetes" is not part of this version yet')
    yield sandbox_for(settings)


def cluster_settings(settings: Settings, worker: str) -> "ClusterSettings":
    """`worker` identifies the pods of one process, or of one data directory."""
    from agentjobs.sandbox.kubernetes.cluster_settings import (  # noqa: PLC0415 - for clusters only
        ClusterSettings,
    )

    labels = (text.partition("=") for text in settings.kubernetes_worker_labels)
    return ClusterSettings(
        worker=worker,
        namespace=settings.kubernetes_namespace,
        image=settings.effective_kubernetes_image,
        image_pull_policy=settings.kubernetes_image_pull_policy,
        user_namespaces=cast("UserNamespaces", settings.kubernetes_user_namespaces.lower()),
        pending_seconds=settings.kubernetes_pending_seconds,
        cache_volume=settings.kubernetes_cache_volume,
        worker_labels={key: value for key, _, value in labels},
        worker_cidrs=tuple(settings.kubernetes_worker_cidrs),
        uid_base=settings.sandbox_uid_base,
        orphan_seconds=settings.orphan_seconds,
    )
