"""Sandboxes that a worker creates while it is idle, so that a job does not wait for its own."""

import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_worker.agents.invocation import create_run_directory
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxError, SandboxTask
from agentjobs_worker.workspace.checkout import Workspaces

_log = logging.getLogger(__name__)


class SpareSandboxes:
    """At most one for each slot, like the sandbox of the last job there. Contains nothing of it."""

    def __init__(self, sandbox: Sandbox, workspaces: Workspaces) -> None:
        self._sandbox = sandbox
        self._workspaces = workspaces
        self._last_tasks: dict[int, SandboxTask] = {}
        self._directories: dict[int, Path] = {}

    def remember(self, task: SandboxTask) -> None:
        """The next job in this slot probably needs a sandbox like this."""
        # Neither secrets nor the connections of this job.
        self._last_tasks[task.slot] = dataclasses.replace(
            task, argv=(), environment={}, ports=(), owner=None, on_note=None
        )

    def create(self, slots: Iterable[int]) -> None:
        """Create one for each of these free slots that had a job since the last call.

        Blocks for microseconds only. Failures are ignored: the next job sees the error itself.
        """
        for slot in slots:
            task = self._last_tasks.pop(slot, None)
            if task is not None and slot not in self._directories:
                with contextlib.suppress(RepoUnavailable):
                    self._create(task)

    @contextlib.asynccontextmanager
    async def borrow(self, slot: int) -> AsyncIterator[Path | None]:
        """The directory for the next checkout in this slot, with a sandbox that waits for it.

        Both are removed at exit.
        """
        directory = self._directories.pop(slot, None)
        try:
            yield directory
        finally:
            if directory is not None:
                await self._remove(directory)

    async def close(self) -> None:
        while self._directories:
            await self._remove(self._directories.popitem()[1])

    def _create(self, task: SandboxTask) -> None:
        directory = self._workspaces.create_directory()
        self._directories[task.slot] = directory
        run_dir = run_dir_in(directory)
        try:
            create_run_directory(run_dir, self._sandbox.owner_uid(task.slot))
            task = dataclasses.replace(task, workspace=directory / "tree", run_dir=run_dir)
            self._sandbox.prepare(task)
        except (OSError, SandboxError) as error:
            # A job can use the directory without a sandbox.
            _log.warning("no sandbox could be created for the next job: %s", error)

    async def _remove(self, directory: Path) -> None:
        try:
            await self._sandbox.discard(directory / "tree")
        finally:
            await self._workspaces.remove_directory(directory)


def run_dir_in(directory: Path) -> Path:
    """The run directory is beside the tree, so that it is removed with it."""
    return directory / "run"
