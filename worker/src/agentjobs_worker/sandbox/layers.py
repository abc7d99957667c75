"""Describes the mounts of a task with layers for `layer_mounter`, which makes them."""

import marshal
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TypedDict

import agentjobs_worker
from agentjobs_runtime.sandboxes.directories import HOME, ROOT, WORKSPACE
from agentjobs_runtime.sandboxes.limits import (
    CPU_BACKSTOP_SECONDS,
    MAX_OPEN_FILES,
    OOM_SCORE,
    Limits,
)
from agentjobs_worker.sandbox.mounts import MOUNT_POINTS, account_files, hosts_file, visible_files
from agentjobs_worker.sandbox.protocol import Layer, SandboxError, SandboxTask

# The mounts hide what is here; bwrap relies on this directory, too.
_STAGING = Path("/tmp")  # noqa: S108 - a mount of its own in a namespace of its own
# Not by its path: a program that is imported has its compiled form stored.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from agentjobs_worker.sandbox.layer_mounter import main; main(int(sys.argv[2]))"
)
_PLACES = (ROOT, HOME, WORKSPACE)


class Overlay(TypedDict):
    """A mount at `name` in the staging directory."""

    name: str
    lower: str
    upper: str
    work: str
    lower_uid: int | None


class Root(TypedDict):
    """What is prepared in an image. The lines of `accounts` come before the image's own."""

    name: str
    mount_points: Sequence[str]
    read_only: Sequence[str]
    files: Mapping[str, bytes]
    accounts: Mapping[str, bytes]


class Plan(TypedDict):
    """`binds` maps names in the staging directory to paths. `uid` and `gid` are the agent's."""

    uid: int
    gid: int
    staging: str
    overlays: Sequence[Overlay]
    binds: Mapping[str, str]
    root: Root | None
    rlimits: Mapping[int, int]
    oom_score: str
    argv: list[str]


class LayerMounts:
    """The mounts of one sandbox: `source` says where bwrap finds them."""

    def __init__(self, task: SandboxTask, uid: int, gid: int) -> None:
        _check(task)
        self._task = task
        self._identity = (uid, gid)
        self._work: list[Path] = []
        uppers = {layer.upper for layer in task.layers}
        paths = {*uppers, task.workspace, task.run_dir, *visible_files(task)}
        self._names = {path: str(number) for number, path in enumerate(sorted(paths))}
        self._binds = {self._names[path]: str(path) for path in sorted(paths - uppers)}

    def source(self, path: Path) -> Path:
        return _STAGING / self._names[path]

    def command(self, plan_descriptor: int) -> list[str]:
        packages = str(Path(agentjobs_worker.__file__).parent.parent)
        return [sys.executable, "-I", "-S", "-c", _PROGRAM, packages, str(plan_descriptor)]

    def plan(self, argv: Sequence[str]) -> bytes:
        """Creates a directory beside each `upper` that the kernel works in. Raises OSError."""
        uid, gid = self._identity
        plan = Plan(
            uid=uid,
            gid=gid,
            staging=str(_STAGING),
            overlays=[self._overlay(layer) for layer in self._task.layers],
            binds=self._binds,
            root=self._root(),
            rlimits=_rlimits(self._task.limits),
            oom_score=OOM_SCORE,
            argv=list(argv),
        )
        return marshal.dumps(dict(plan))

    def remove_work_directories(self) -> None:
        """Blocking. Call it when no process of the sandbox is alive."""
        for work in self._work:
            # The kernel creates directories that their owner cannot enter.
            for parent, names, _ in os.walk(work):
                for name in names:
                    Path(parent, name).chmod(0o700)
            shutil.rmtree(work, ignore_errors=True)
        self._work.clear()

    def _overlay(self, layer: Layer) -> Overlay:
        work = tempfile.mkdtemp(prefix=f"{layer.upper.name}-work-", dir=layer.upper.parent)
        self._work.append(Path(work))
        return Overlay(
            name=self._names[layer.upper],
            lower=str(layer.lower),
            upper=str(layer.upper),
            work=work,
            lower_uid=layer.lower_uid,
        )

    def _root(self) -> Root | None:
        layer = root_layer(self._task)
        if layer is None:
            return None
        return Root(
            name=self._names[layer.upper],
            mount_points=[str(path) for path in MOUNT_POINTS],
            read_only=[str(path) for path in visible_files(self._task)],
            # Without a network there is no name server.
            files={"/etc/hosts": hosts_file(self._task.hosts), "/etc/resolv.conf": b""},
            accounts=account_files(*self._identity),
        )


def root_layer(task: SandboxTask) -> Layer | None:
    return next((layer for layer in task.layers if layer.inside == ROOT), None)


def _check(task: SandboxTask) -> None:
    places: list[PurePosixPath] = [layer.inside for layer in task.layers]
    if len(set(places)) < len(places) or not set(places) <= set(_PLACES):
        raise SandboxError(f"each of {', '.join(map(str, _PLACES))} can have one layer")
    for layer in task.layers:
        if (layer.inside == WORKSPACE) != (layer.upper == task.workspace):
            raise SandboxError("the workspace is the upper directory of its layer, and of no other")


def _rlimits(limits: Limits) -> dict[int, int]:
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_CPU: limits.cpu_seconds and limits.cpu_seconds + CPU_BACKSTOP_SECONDS,
    }
    return {kind: value for kind, value in values.items() if value or kind == resource.RLIMIT_CORE}
