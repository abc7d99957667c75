"""Describes agents in pods for `agentjobs doctor`. Runs trial pods, and leaves nothing behind."""

import asyncio
from collections.abc import Sequence

import msgspec

from agentjobs_kubernetes.access import (
    PERMISSIONS,
    foreign_secrets,
    missing_permissions,
    server_version,
)
from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.network_probe import probe_network
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_worker.sandbox.protocol import SandboxDescription, SandboxError

# The user of the command waits for it.
_ACCESS_SECONDS = 20.0
_MAX_NAMED = 5
_NO_USER_NAMESPACES = (
    "pods have no user namespace: who breaks out of a container is an ordinary user of its node; "
    "nodes need Linux 6.3 and a container runtime of 2024 or newer for `hostUsers: false`, or give "
    "agents a `runtime_class` such as gvisor"
)


async def describe_pods(sandbox: KubernetesSandbox) -> SandboxDescription:
    try:
        cluster = sandbox.cluster
    except SandboxError as error:
        return SandboxDescription(kind="kubernetes", problems=(str(error),))
    try:
        async with asyncio.timeout(_ACCESS_SECONDS):
            described = await _describe_access(cluster)
    except SandboxError as error:
        described = SandboxDescription(kind="kubernetes", problems=(str(error),))
    except TimeoutError:
        problem = (
            f"the API server {_server(cluster)} did not answer within {_ACCESS_SECONDS:g} seconds: "
            "check KUBECONFIG and the network"
        )
        described = SandboxDescription(kind="kubernetes", problems=(problem,))
    return described if described.problems else await _with_trials(sandbox, described)


async def _describe_access(cluster: Cluster) -> SandboxDescription:
    """Raises SandboxError."""
    namespace = cluster.settings.namespace
    version = f"{await server_version(cluster)} at {_server(cluster)}, namespace {namespace}"
    missing = await missing_permissions(cluster)
    secrets = await foreign_secrets(cluster)
    return SandboxDescription(
        kind="kubernetes",
        version=version,
        problems=(_explain_missing(missing, namespace),) if missing else (),
        notes=(_explain_secrets(secrets, namespace),) if secrets else (),
    )


async def _with_trials(
    sandbox: KubernetesSandbox, described: SandboxDescription
) -> SandboxDescription:
    try:
        await sandbox.check()
        network = await probe_network(sandbox.runs)
    except SandboxError as error:
        return msgspec.structs.replace(described, problems=(str(error),))
    has_user_namespaces = sandbox.cluster.has_user_namespaces
    first = sandbox.cluster.settings.uid_base
    return msgspec.structs.replace(
        described,
        runs_as="a user of a namespace of its own"
        if has_user_namespaces
        else f"random uids from {first} on",
        seccomp="RuntimeDefault, and the filter of the service",
        limits="the cgroups of pods and a watchdog in them",
        environments="the cluster pulls their images, and layers are copied to pods",
        network=network.explanation if network.is_enforced else "",
        problems=() if network.is_enforced else (network.explanation,),
        notes=described.notes if has_user_namespaces else (*described.notes, _NO_USER_NAMESPACES),
    )


def _server(cluster: Cluster) -> str:
    return str(cluster.client.config.cluster.server)


def _explain_missing(missing: Sequence[str], namespace: str) -> str:
    if len(missing) == sum(map(len, PERMISSIONS.values())):
        return (
            f"this worker may do nothing in the namespace {namespace}: check the setting "
            "kubernetes_namespace, and that the Role of the Helm chart is bound there to the "
            "worker's service account"
        )
    return (
        f"this worker may not {', '.join(missing)} in the namespace {namespace}: add that to the "
        "Role of its service account; the Helm chart has the whole list"
    )


def _explain_secrets(names: Sequence[str], namespace: str) -> str:
    named = ", ".join(names[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (
        f"the namespace {namespace} has secrets that do not belong to agents ({named}{more}): "
        "whoever creates a pod there can read them, so keep those of the service in another "
        "namespace"
    )
