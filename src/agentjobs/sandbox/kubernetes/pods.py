"""The pod of one command, as Kubernetes creates it. Talks to nobody."""

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

from agentjobs.sandbox import mounts
from agentjobs.sandbox.kubernetes.cluster_settings import ClusterSettings
from agentjobs.sandbox.kubernetes.credentials import SUPERVISOR_PORT
from agentjobs.sandbox.kubernetes.labels import pod_annotations, pod_labels
from agentjobs.sandbox.limits import GIB, KIB, Limits
from agentjobs.sandbox.protocol import (
    WRITABLE_DIRECTORIES,
    Placement,
    RootImage,
    RunOwner,
    SandboxError,
    SandboxTask,
)

SUPERVISOR_PROGRAM = "/usr/local/bin/agentjobs-supervisor"
SUPERVISOR_VARIABLE = "AGENTJOBS_SUPERVISOR"
AGENT_CONTAINER = "agent"
SUPERVISOR_CONTAINER = "supervisor"
# In a user namespace, the same uid is another user of the node in each pod.
NAMESPACED_UID = 10_001

_MIB = 1024 * KIB
_UIDS = 100_000
# The supervisor's own memory, besides that of the agent.
_SUPERVISOR_MEMORY = 64 * _MIB
# The supervisor measures the workspace; the kubelet ends the pod only if that fails.
_STORAGE_MARGIN = GIB
# Few agents need all that they may use. A node that runs out of space evicts those that use more
# than this first, and they run again.
_MAX_STORAGE_REQUEST = 2 * GIB
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
_WORKSPACE_VOLUMES = {
    "workspace": mounts.WORKSPACE,
    "run": mounts.RUN_DIRECTORY,
    # Volumes of their own, which an agent can neither remove nor replace.
    **{name: mounts.RUN_DIRECTORY / name for name in WRITABLE_DIRECTORIES},
}
_HOME_VOLUME = "home"
_SCRATCH_VOLUMES = {"tmp": mounts.TEMPORARY, "shm": mounts.SHARED_MEMORY}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """`supervisor` is the value of its environment variable; `name` is chosen here, so that a
    creation whose answer was lost can be repeated."""

    name: str
    supervisor: str = field(repr=False)
    timeout_seconds: float
    limits: Limits = field(default_factory=Limits)
    owner: RunOwner | None = None
    image: RootImage | None = None
    placement: Placement = field(default_factory=Placement)
    hosts: Mapping[str, str] = field(default_factory=dict)
    # The home directory is a layer, which may be larger than memory.
    has_home_on_disk: bool = False
    # None: as the cluster has decided for all.
    has_user_namespace: bool | None = None

    @classmethod
    def for_task(cls, task: SandboxTask, supervisor: str) -> "PodRequest":
        return cls(
            name=pod_name(task.owner.step if task.owner else ""),
            supervisor=supervisor,
            timeout_seconds=task.timeout_seconds,
            limits=task.limits,
            owner=task.owner,
            image=task.image,
            placement=task.placement,
            hosts=task.hosts,
            has_home_on_disk=any(layer.inside == mounts.HOME for layer in task.layers),
        )

    @property
    def supervisor_directory(self) -> str:
        """Where the supervisor is if the image does not contain it.

        An image must not know it: it could declare a volume there, with a program of its own.
        """
        return f"/{self.name}"

    @property
    def copied_supervisor(self) -> str:
        return f"{self.supervisor_directory}/supervisor"


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
            labels=pod_labels(request.owner, settings.worker),
            annotations={**pod_annotations(request.owner), **_NOT_MOVED},
        ),
        spec=core.PodSpec(
            containers=[_agent_container(request, settings)],
            initContainers=[_supervisor_container(request, settings)] if request.image else None,
            volumes=_volumes(request),
            automountServiceAccountToken=False,
            enableServiceLinks=False,
            hostUsers=False if has_user_namespace else None,
            restartPolicy="Never",
            terminationGracePeriodSeconds=1,
            activeDeadlineSeconds=math.ceil(
                request.timeout_seconds + settings.pending_seconds + _DEADLINE_MARGIN_SECONDS
            ),
            securityContext=core.PodSecurityContext(
                runAsNonRoot=True,
                runAsUser=uid,
                runAsGroup=uid,
                seccompProfile=core.SeccompProfile(type="RuntimeDefault"),
                sysctls=[core.Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="0")],
            ),
            # Nothing of the cluster has a name inside. At least one server is required.
            dnsPolicy="None",
            dnsConfig=core.PodDNSConfig(nameservers=[_LOOPBACK]),
            hostAliases=_host_aliases(request.hosts),
            imagePullSecrets=(
                [core.LocalObjectReference(name=request.name)]
                if request.image and request.image.registry_auth
                else None
            ),
            runtimeClassName=request.placement.runtime_class or None,
            nodeSelector={"kubernetes.io/os": "linux", **request.placement.node_selector},
            tolerations=_tolerations(request.placement.tolerations),
        ),
    )


def _agent_container(request: PodRequest, settings: ClusterSettings) -> core.Container:
    image = request.image
    return core.Container(
        name=AGENT_CONTAINER,
        image=image.reference if image else settings.image,
        # Otherwise whoever knows a reference could run an image that another organization pulled.
        imagePullPolicy="Always" if image else settings.image_pull_policy,
        command=[request.copied_supervisor if image else SUPERVISOR_PROGRAM],
        env=[core.EnvVar(name=SUPERVISOR_VARIABLE, value=request.supervisor)],
        ports=[core.ContainerPort(containerPort=SUPERVISOR_PORT)],
        resources=_resources(request.limits),
        securityContext=_security_context(),
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=_volume_mounts(request),
        workingDir="/",
    )


def _supervisor_container(request: PodRequest, settings: ClusterSettings) -> core.Container:
    memory = {"memory": str(_SUPERVISOR_MEMORY)}
    return core.Container(
        name=SUPERVISOR_CONTAINER,
        image=settings.image,
        imagePullPolicy=settings.image_pull_policy,
        command=[SUPERVISOR_PROGRAM, "copy", request.copied_supervisor],
        resources=core.ResourceRequirements(
            requests={**memory, "cpu": _UNLIMITED_CPU_REQUEST}, limits=memory
        ),
        securityContext=_security_context(),
        volumeMounts=[
            core.VolumeMount(name=SUPERVISOR_CONTAINER, mountPath=request.supervisor_directory)
        ],
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
        maximum["ephemeral-storage"] = str(limits.workspace_bytes + _STORAGE_MARGIN)
    minimum = {"memory": str(_UNLIMITED_MEMORY_REQUEST), "cpu": _UNLIMITED_CPU_REQUEST}
    requests = {**minimum, **maximum}
    if limits.workspace_bytes:
        requests["ephemeral-storage"] = str(min(limits.workspace_bytes, _MAX_STORAGE_REQUEST))
    return core.ResourceRequirements(requests=requests, limits=maximum or None)


def _volumes(request: PodRequest) -> list[core.Volume]:
    limits = request.limits
    storage = str(limits.workspace_bytes + _STORAGE_MARGIN) if limits.workspace_bytes else None
    scratch = str(limits.scratch_bytes) if limits.scratch_bytes else None
    on_disk = [*_WORKSPACE_VOLUMES, *([_HOME_VOLUME] if request.has_home_on_disk else [])]
    in_memory = [*_SCRATCH_VOLUMES, *([] if request.has_home_on_disk else [_HOME_VOLUME])]
    volumes = [
        *(_empty_directory(name, size=storage) for name in on_disk),
        *(_empty_directory(name, size=scratch, medium="Memory") for name in in_memory),
    ]
    if request.image:
        volumes.append(_empty_directory(SUPERVISOR_CONTAINER))
    return volumes


def _volume_mounts(request: PodRequest) -> list[core.VolumeMount]:
    directories = {**_WORKSPACE_VOLUMES, **_SCRATCH_VOLUMES, _HOME_VOLUME: mounts.HOME}
    volume_mounts = [
        core.VolumeMount(name=name, mountPath=str(path)) for name, path in directories.items()
    ]
    if request.image:
        volume_mounts.append(
            core.VolumeMount(
                name=SUPERVISOR_CONTAINER, mountPath=request.supervisor_directory, readOnly=True
            )
        )
    return volume_mounts


def _empty_directory(
    name: str, *, size: str | None = None, medium: str | None = None
) -> core.Volume:
    return core.Volume(name=name, emptyDir=core.EmptyDirVolumeSource(medium=medium, sizeLimit=size))


def _host_aliases(hosts: Mapping[str, str]) -> list[core.HostAlias] | None:
    names: dict[str, list[str]] = defaultdict(list)
    for name, address in hosts.items():
        names[str(ipaddress.ip_address(address))].append(name)
    return [core.HostAlias(ip=ip, hostnames=hostnames) for ip, hostnames in names.items()] or None


def _tolerations(
    tolerations: Iterable[Mapping[str, str | int]],
) -> list[core.Toleration] | None:
    try:
        return [msgspec.convert(dict(each), core.Toleration) for each in tolerations] or None
    except msgspec.ValidationError as error:
        raise SandboxError(f"a toleration of the agent is not valid: {error}") from error
