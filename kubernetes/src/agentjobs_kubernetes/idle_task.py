"""A task for a pod that runs no command, and needs little."""

import os
from pathlib import Path

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_worker.sandbox.protocol import RootImage, RunOwner, SandboxTask

SMALL = Limits(memory_bytes=64 * 1024**2, workspace_bytes=64 * 1024**2, scratch_bytes=16 * 1024**2)


def idle_task(
    step: str,
    timeout_seconds: float,
    *,
    owner: RunOwner | None = None,
    image: RootImage | None = None,
    placement: Placement | None = None,
) -> SandboxTask:
    """`owner` is the run that it is for, which it does not replace."""
    nowhere = Path(os.devnull)
    return SandboxTask(
        argv=(),
        environment={},
        workspace=nowhere,
        run_dir=nowhere,
        timeout_seconds=timeout_seconds,
        slot=0,
        limits=SMALL,
        image=image,
        placement=placement or Placement(),
        owner=RunOwner(organization_id=owner.organization_id, step=step) if owner else None,
    )
