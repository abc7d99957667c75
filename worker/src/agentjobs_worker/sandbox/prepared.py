"""A sandbox that waits for its task, and which tasks it suits."""

import dataclasses
from pathlib import Path

from agentjobs_worker.sandbox.launch import Launch
from agentjobs_worker.sandbox.protocol import SandboxTask


@dataclasses.dataclass(frozen=True, slots=True)
class FixedPart:
    """The part of a task that a sandbox is created with.

    Programs may be replaced on disk, so each has its inode.
    """

    task: SandboxTask
    read_only_inodes: tuple[tuple[int, int] | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedSandbox:
    fixed_part: FixedPart
    launch: Launch


def to_fixed_part(task: SandboxTask) -> FixedPart:
    task = dataclasses.replace(
        task, argv=(), environment={}, timeout_seconds=0, ports=(), owner=None, on_note=None
    )
    return FixedPart(task, tuple(map(_inode, task.read_only)))


def _inode(path: Path) -> tuple[int, int] | None:
    """None if it does not exist; bwrap reports that."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
