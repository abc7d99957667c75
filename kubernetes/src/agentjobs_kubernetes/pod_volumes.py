"""The volumes of a pod, and which of its containers sees which of them."""

from lightkube.models import core_v1 as core

from agentjobs_runtime.sandboxes import directories
from agentjobs_runtime.sandboxes.directories import WRITABLE_DIRECTORIES
from agentjobs_runtime.sandboxes.limits import GIB, Limits
from agentjobs_worker.sandbox import mounts

# The supervisor's program has the same path.
CACHE_DIRECTORY = "/agentjobs-cache"
# The supervisor measures the workspace; the kubelet ends the pod only if that fails.
STORAGE_MARGIN = GIB

_SUPERVISOR = "supervisor"
_CACHE = "cache"
_HOME = "home"
_WORKSPACE = {
    "workspace": directories.WORKSPACE,
    "run": directories.RUN_DIRECTORY,
    # Volumes of their own, which an agent can neither remove nor replace.
    **{name: directories.RUN_DIRECTORY / name for name in WRITABLE_DIRECTORIES},
}
_SCRATCH = {"tmp": mounts.TEMPORARY, "shm": mounts.SHARED_MEMORY}
_WRITABLE = {**_WORKSPACE, **_SCRATCH, _HOME: directories.HOME}
_WITH_LAYERS = ("workspace", _HOME)


def pod_volumes(
    limits: Limits, *, has_home_on_disk: bool, has_init_container: bool, claim: str
) -> list[core.Volume]:
    """`claim` is that of the cache; empty: the pod does not use it."""
    storage = str(limits.workspace_bytes + STORAGE_MARGIN) if limits.workspace_bytes else None
    scratch = str(limits.scratch_bytes) if limits.scratch_bytes else None
    on_disk = [*_WORKSPACE, *([_HOME] if has_home_on_disk else [])]
    in_memory = [*_SCRATCH, *([] if has_home_on_disk else [_HOME])]
    volumes = [
        *(_empty_directory(name, size=storage) for name in on_disk),
        *(_empty_directory(name, size=scratch, medium="Memory") for name in in_memory),
    ]
    if has_init_container:
        volumes.append(_empty_directory(_SUPERVISOR))
    if claim:
        source = core.PersistentVolumeClaimVolumeSource(claimName=claim)
        volumes.append(core.Volume(name=_CACHE, persistentVolumeClaim=source))
    return volumes


def agent_mounts(supervisor_directory: str, *, writes_cache: bool) -> list[core.VolumeMount]:
    """The cache has files of others, so no agent runs where it is mounted."""
    volume_mounts = [_mount(name) for name in _WRITABLE]
    if supervisor_directory:
        volume_mounts.append(
            core.VolumeMount(name=_SUPERVISOR, mountPath=supervisor_directory, readOnly=True)
        )
    if writes_cache:
        volume_mounts.append(core.VolumeMount(name=_CACHE, mountPath=CACHE_DIRECTORY))
    return volume_mounts


def init_mounts(supervisor_directory: str, *, unpacks: bool) -> list[core.VolumeMount]:
    volume_mounts = [core.VolumeMount(name=_SUPERVISOR, mountPath=supervisor_directory)]
    if unpacks:
        cache = core.VolumeMount(name=_CACHE, mountPath=CACHE_DIRECTORY, readOnly=True)
        volume_mounts += [*map(_mount, _WITH_LAYERS), cache]
    return volume_mounts


def _mount(name: str) -> core.VolumeMount:
    return core.VolumeMount(name=name, mountPath=str(_WRITABLE[name]))


def _empty_directory(
    name: str, *, size: str | None = None, medium: str | None = None
) -> core.Volume:
    return core.Volume(name=name, emptyDir=core.EmptyDirVolumeSource(medium=medium, sizeLimit=size))
