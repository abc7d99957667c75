"""Tasks that show whether this machine can create a sandbox."""

import dataclasses
import os
from pathlib import Path

from agentjobs_runtime.sandboxes.directories import HOME, WRITABLE_DIRECTORIES
from agentjobs_worker.sandbox.protocol import Layer, SandboxTask

_CONTENT = "readable"


def trial(directory: Path) -> SandboxTask:
    workspace = directory / "workspace"
    run_dir = directory / "run"
    workspace.mkdir()
    for name in WRITABLE_DIRECTORIES:
        (run_dir / name).mkdir(parents=True)
    return SandboxTask(
        argv=("true",),
        environment={},
        workspace=workspace,
        run_dir=run_dir,
        timeout_seconds=10,
        slot=0,
    )


def layered_trial(directory: Path, owner: int | None, other_owner: int | None) -> SandboxTask:
    """Reads and changes a private file that another slot left."""
    lower, upper = directory / "lower", directory / "upper"
    for path, uid in ((lower, other_owner), (upper, owner)):
        path.mkdir(mode=0o700)
        _give(path, uid)
    file = lower / "file"
    file.write_text(_CONTENT)
    file.chmod(0o600)
    _give(file, other_owner)
    task = trial(directory)
    _give(task.workspace, owner)
    command = f'test "$(cat ~/file)" = {_CONTENT} && echo changed > ~/file'
    layer = Layer(inside=HOME, lower=lower, upper=upper, lower_uid=other_owner)
    return dataclasses.replace(task, argv=("sh", "-c", command), layers=(layer,))


def _give(path: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(path, uid, uid)
