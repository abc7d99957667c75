"""The pod of one command, as Kubernetes creates it. Sends no requests."""

import ipaddress
import math
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from lightkube.models import core_v1 as core
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from agentjobs_kubernetes import pod_volumes as volumes
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.credentials import SUPERVISOR_PORT
from agentjobs_kubernetes.labels import pod_annotations, pod_labels
from agentjobs_runtime.sandboxes import directories
from agentjobs_runtime.sandboxes.limits import GIB, KIB, Limits
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxTask

SUPERVISOR_PROGRAM = "/usr/local/bin/agentjobs-supervisor"
SUPERVISOR_VARIABLE = "AGENTJOBS_SUPERVISOR"
LAYERS_VARIABLE = "AGENTJOBS_CACHED_LAYERS"
AGENT_CONTAINER = "agent"
SUPERVISOR_CONTAINER = "supervisor"
CACHE_CONTAINER = "cache"
# In a user namespace, the same uid is another user of the node in each pod.
NAMESPACED_UID = 10_001

_MIB = 1024 * KIB
_UIDS = 100_000
# The supervisor's own memory, besides that of the agent.
_SUPERVISOR_MEMORY = 64 * _MIB
# Few agents need all that they may use. A node that runs out of space evicts those that use more
# than this first, and they run again.
_MAX_STORAGE_REQUEST = 2 * GIB
# The group of the cache's files, because each pod may have another user.
_CACHE_GROUP = 10_001
_UNLIMITED_MEMORY_REQUEST = 256 * _MIB
_UNLIMITED_CPU_REQUEST = "100m"
# The worker ends the command; this is for a worker that cannot.
_DEADLINE_MARGIN_SECONDS = 300
_LOOPBACK = "127.0.0.1"
# Autoscalers must not end a run to empty a node.
_NOT_MOVED = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


class CachedLayer(msgspec.Struct, frozen=True):
    """An archive of the cache, and the directory of the pod that it belongs in."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """`supervisor` is the value of its environment variable; `name` is chosen here, so that a
    creation whose answer was lost can be repeated."""

    name: str
    supervisor: str = field(repr=False)
    task: SandboxTask
    # Unpacked before the supervisor starts, as far as the cache has them.
    cached: tuple[CachedLayer, ...] = ()
    # Only for a pod that runs no job's command.
    writes_cache: bool = False
    # None: as the cluster has decided for all.
    has_user_namespace: bool | None = None

    @property
    def supervisor_directory(self) -> str:
        """Where an init container puts the supervisor, and what it has to say to it.

        An image must not know it: it could declare a volume there, with a program of its own.
        """
        return f"/{self.name}"

    @property
    def copied_supervisor(self) -> str:
        return f"{self.supervisor_directory}/supervisor"

    @property
    def has_init_container(self) -> bool:
        return self.task.image is not None or bool(self.cached)

    @property
    def has_home_on_disk(self) -> bool:
        """The home directory is a layer, which may be larger than memory."""
        return any(layer.inside == directories.HOME for layer in self.task.layers)


def pod_name(step: str) -> str:
    """Unique, and valid as the name of a pod and of its Secret."""
    readable = re.sub(r"[^a-z0-9]+", "-", step.lower()).strip("-")[:30].strip("-") or "run"
    return f"agentjobs-{readable}-{secrets.token_hex(8)}"


def pod_manifest(
    request: PodRequest, settings: ClusterSettings, *, has_user_namespace: bool
) -> Pod:
    """Raises SandboxError for a placement that no pod can have."""
    if request.has_user_namespace is not None:
        has_user_namespace = request.has_user_namespace
    uid = NAMESPACED_UID if has_user_namespace else settings.uid_base + secrets.randbelow(_UIDS)
    return Pod(
        metadata=ObjectMeta(
            name=request.name,
            namespace=settings.namespace,
            labels=pod_labels(request.task.owner, settings.worker),
            annotations={**pod_annotations(request.task.owner), **_NOT_MOVED},
        ),
        spec=core.PodSpec(
            containers=[_agent_container(request, settings)],
            initContainers=(
                [_init_container(request, settings)] if request.has_init_container else None
            ),
            volumes=volumes.pod_volumes(
                request.task.limits,
                has_home_on_disk=request.has_home_on_disk,
                has_init_container=request.has_init_container,
                claim=settings.cache_claim if request.cached or request.writes_cache else "",
            ),
            automountServiceAccountToken=False,
            enableServiceLinks=False,
            hostUsers=False if has_user_namespace else None,
            restartPolicy="Never",
            terminationGracePeriodSeconds=1,
            activeDeadlineSeconds=math.ceil(
                request.task.timeout_seconds + settings.pending_seconds + _DEADLINE_MARGIN_SECONDS
            ),
            securityContext=core.PodSecurityContext(
                runAsNonRoot=True,
                runAsUser=uid,
                runAsGroup=uid,
                fsGroup=_CACHE_GROUP if request.writes_cache else None,
                fsGroupChangePolicy="OnRootMismatch" if request.writes_cache else None,
                seccompProfile=core.SeccompProfile(type="RuntimeDefault"),
                sysctls=[core.Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="0")],
            ),
            # Nothing of the cluster has a name inside. At least one server is required.
            dnsPolicy="None",
            dnsConfig=core.PodDNSConfig(nameservers=[_LOOPBACK]),
            hostAliases=_host_aliases(request.task.hosts),
            imagePullSecrets=_pull_secrets(request, settings),
            runtimeClassName=request.task.placement.runtime_class or None,
            nodeSelector={"kubernetes.io/os": "linux", **request.task.placement.node_selector},
            tolerations=_tolerations(request.task.placement.tolerations),
        ),
    )


def _pull_secrets(
    request: PodRequest, settings: ClusterSettings
) -> list[core.LocalObjectReference] | None:
    """Also with an environment's image: the supervisor is copied from the image of agents."""
    names = list(settings.image_pull_secrets)
    if request.task.image and request.task.image.registry_auth:
        names.append(request.name)
    return [core.LocalObjectReference(name=name) for name in names] or None


def _agent_container(request: PodRequest, settings: ClusterSettings) -> core.Container:
    image = request.task.image
    return core.Container(
        name=AGENT_CONTAINER,
        image=image.reference if image else settings.image,
        # Otherwise whoever knows a reference could run an image that another organization pulled.
        imagePullPolicy="Always" if image else settings.image_pull_policy,
        command=[request.copied_supervisor if request.has_init_container else SUPERVISOR_PROGRAM],
        env=[core.EnvVar(name=SUPERVISOR_VARIABLE, value=request.supervisor)],
        ports=[core.ContainerPort(containerPort=SUPERVISOR_PORT)],
        resources=_resources(request.task.limits),
        securityContext=_security_context(),
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=volumes.agent_mounts(
            request.supervisor_directory if request.has_init_container else "",
            writes_cache=request.writes_cache,
        ),
        workingDir="/",
    )


def _init_container(request: PodRequest, settings: ClusterSettings) -> core.Container:
    """Brings the supervisor if the image lacks it, and unpacks layers.

    The agent's own container never sees the cache, which has files of others.
    """
    memory = {"memory": str(_SUPERVISOR_MEMORY)}
    layers = msgspec.json.encode(request.cached).decode()
    return core.Container(
        name=SUPERVISOR_CONTAINER if request.task.image else CACHE_CONTAINER,
        image=settings.image,
        imagePullPolicy=settings.image_pull_policy,
        command=[SUPERVISOR_PROGRAM, "copy", request.copied_supervisor],
        env=[core.EnvVar(name=LAYERS_VARIABLE, value=layers)] if request.cached else None,
        resources=(
            _resources(request.task.limits)
            if request.cached
            else core.ResourceRequirements(
                requests={**memory, "cpu": _UNLIMITED_CPU_REQUEST}, limits=memory
            )
        ),
        securityContext=_security_context(),
        volumeMounts=volumes.init_mounts(
            request.supervisor_directory, unpacks=bool(request.cached)
        ),
        workingDir="/",
    )


def _security_context() -> core.SecurityContext:
    return core.SecurityContext(
        allowPrivilegeEscalation=False,
        capabilities=core.Capabilities(drop=["ALL"]),
        readOnlyRootFilesystem=True,
        runAsNonRoot=True,
    )


def _resources(limits: Limits) -> core.ResourceRequirements:
    """Requests equal limits, except for disk space: the cluster must not promise the same memory
    twice."""
    maximum: dict[str, str] = {}
    if limits.memory_bytes:
        maximum["memory"] = str(limits.memory_bytes + _SUPERVISOR_MEMORY)
    if limits.cpus:
        maximum["cpu"] = f"{math.ceil(limits.cpus * 1000)}m"
    if limits.workspace_bytes:
        maximum["ephemeral-storage"] = str(limits.workspace_bytes + volumes.STORAGE_MARGIN)
    minimum = {"memory": str(_UNLIMITED_MEMORY_REQUEST), "cpu": _UNLIMITED_CPU_REQUEST}
    requests = {**minimum, **maximum}
    if limits.workspace_bytes:
        requests["ephemeral-storage"] = str(min(limits.workspace_bytes, _MAX_STORAGE_REQUEST))
    return core.ResourceRequirements(requests=requests, limits=maximum or None)


def _host_aliases(hosts: Mapping[str, str]) -> list[core.HostAlias] | None:
    names: dict[str, list[str]] = defaultdict(list)
    for name, address in hosts.items():
        names[str(ipaddress.ip_address(address))].append(name)
    return [core.HostAlias(ip=ip, hostnames=hostnames) for ip, hostnames in names.items()] or None


def _tolerations(
    tolerations: Iterable[Mapping[str, str | int]],
) -> list[core.Toleration] | None:
    try:
        return [
            msgspec.convert(dict(toleration), core.Toleration) for toleration in tolerations
        ] or None
    except msgspec.ValidationError as error:
        raise SandboxError(f"a toleration of the agent is not valid: {error}") from error
