"""Creates the sandbox that the setting `sandbox` names."""

import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import KIB
from agentjobs.sandbox.process import ProcessSandbox
from agentjobs.sandbox.protocol import Sandbox
from agentjobs.sandbox.worker_identity import WorkerIdentity
from agentjobs.settings import Settings

if TYPE_CHECKING:
    from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings, UserNamespaces
    from agentjobs.sandbox.kubernetes.sandbox import KubernetesSandbox


@contextlib.asynccontextmanager
async def open_sandbox(
    settings: Settings, identity: WorkerIdentity | None = None
) -> AsyncIterator[Sandbox]:
    """`identity` is that of a worker with agents in pods."""
    if identity is not None:
        async with _open_pods(settings, identity.id, identity.directory) as pods:
            yield pods
        return
    disk_floor_bytes = settings.disk_floor_mib * 1024 * KIB
    if settings.has_sandbox:
        yield BubblewrapSandbox(settings.sandbox_uid_base, disk_floor_bytes=disk_floor_bytes)
    else:
        yield ProcessSandbox(disk_floor_bytes=disk_floor_bytes)


@contextlib.asynccontextmanager
async def open_trial_pods(settings: Settings) -> AsyncIterator["KubernetesSandbox"]:
    """For a command beside a worker, which has its own."""
    with tempfile.TemporaryDirectory(prefix="agentjobs-trial-") as directory:
        worker = f"trial-{secrets.token_hex(8)}"
        async with _open_pods(settings, worker, Path(directory)) as pods:
            yield pods


@contextlib.asynccontextmanager
async def _open_pods(
    settings: Settings, worker: str, directory: Path
) -> AsyncIterator["KubernetesSandbox"]:
    from agentjobs.sandbox.kubernetes.sandbox import (  # noqa: PLC0415 - for clusters only
        KubernetesSandbox,
    )

    sandbox = KubernetesSandbox(_cluster_settings(settings, worker), directory)
    try:
        yield sandbox
    finally:
        await sandbox.close()


def _cluster_settings(settings: Settings, worker: str) -> "ClusterSettings":
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
