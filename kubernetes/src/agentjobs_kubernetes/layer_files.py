"""Which directories of a task go to its pod, and which of the pod's come back."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentjobs_kubernetes.download import deleted_record
from agentjobs_runtime.sandboxes.directories import (
    HOME,
    RUN_DIRECTORY,
    WORKSPACE,
    WRITABLE_DIRECTORIES,
)
from agentjobs_worker.sandbox.protocol import Layer, SandboxError, SandboxTask

# Reports and artifacts of this size are refused, whatever follows.
_MAX_RUN_FILE_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpload:
    """Before the files of `source`, the pod gets those of `lower`, without `deleted`."""

    inside: PurePosixPath
    source: Path
    lower: Path | None = None
    deleted: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDownload:
    """`target` and `lower` as `download_changes` takes them. Larger files are cut."""

    inside: PurePosixPath
    target: Path
    lower: Path | None = None
    max_file_bytes: int = 0


def task_uploads(task: SandboxTask, unpacked: Collection[str] = ()) -> list[TaskUpload]:
    """`unpacked` are directories of the pod that have the files of the lower directory already.

    Blocking, briefly. Raises SandboxError.
    """
    layers = _layers(task)
    uploads = [
        TaskUpload(
            inside=inside,
            source=layer.upper,
            lower=None if str(inside) in unpacked else layer.lower,
            deleted=_deleted_paths(layer.upper),
        )
        for inside, layer in layers.items()
    ]
    if WORKSPACE not in layers:
        uploads.append(TaskUpload(inside=WORKSPACE, source=task.workspace))
    return [*uploads, TaskUpload(inside=RUN_DIRECTORY, source=task.run_dir)]


def task_downloads(task: SandboxTask) -> list[TaskDownload]:
    """Raises SandboxError."""
    layers = _layers(task)
    downloads = [
        TaskDownload(inside=inside, target=layer.upper, lower=layer.lower)
        for inside, layer in layers.items()
    ]
    if WORKSPACE not in layers:
        downloads.append(TaskDownload(inside=WORKSPACE, target=task.workspace))
    own = (
        TaskDownload(
            inside=RUN_DIRECTORY / name,
            target=task.run_dir / name,
            max_file_bytes=_MAX_RUN_FILE_BYTES,
        )
        for name in WRITABLE_DIRECTORIES
    )
    return [*downloads, *own]


def _layers(task: SandboxTask) -> dict[PurePosixPath, Layer]:
    layers = {layer.inside: layer for layer in task.layers}
    if len(layers) < len(task.layers) or not set(layers) <= {HOME, WORKSPACE}:
        raise SandboxError(f"in a pod, each of {HOME} and {WORKSPACE} can have one layer")
    for layer in task.layers:
        if (layer.inside == WORKSPACE) != (layer.upper == task.workspace):
            raise SandboxError("the workspace is the upper directory of its layer, and of no other")
    return layers


def _deleted_paths(upper: Path) -> tuple[bytes, ...]:
    """Paths of the lower directory that earlier runs deleted."""
    try:
        return tuple(deleted_record(upper).read_bytes().split(b"\0"))
    except FileNotFoundError:
        return ()
