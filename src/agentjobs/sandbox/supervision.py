"""What the service keeps on one sandbox while it runs: its limits and its doors.

Begun when the sandbox is up and nothing of the agent runs yet, ended when nothing of it lives.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from agentjobs.sandbox.cgroup import Cgroup, Cgroups
from agentjobs.sandbox.child import outlast
from agentjobs.sandbox.deleted_files import DeletedFiles
from agentjobs.sandbox.disk import DiskUsage, written_directories
from agentjobs.sandbox.limits import OOM_SCORE
from agentjobs.sandbox.ports import Doors
from agentjobs.sandbox.protocol import SandboxError, SandboxTask
from agentjobs.sandbox.usage import ProcessUsage
from agentjobs.sandbox.watchdog import Gauge, Watchdog


class Keepers:
    """What all sandboxes of this service share: threads that look, and cgroups if there are any."""

    def __init__(self, cgroups: Cgroups | None = None) -> None:
        self.cgroups = cgroups
        self.looks = ThreadPoolExecutor(1, thread_name_prefix="agentjobs-limits")
        # Apart, so that the size of a large tree delays no look at the memory.
        self.walks = ThreadPoolExecutor(1, thread_name_prefix="agentjobs-disk")


class Supervision:
    """`exceeded` is the limit that was passed, in words; `kill` has been called for it."""

    def __init__(self, task: SandboxTask, keepers: Keepers, kill: Callable[[], None]) -> None:
        self.exceeded: str | None = None
        self._task = task
        self._keepers = keepers
        self._kill = kill
        self._cgroup: Cgroup | None = None
        self._watchdogs: list[Watchdog] = []
        self._doors = Doors(task.doors) if task.doors else None

    @property
    def needs_time(self) -> bool:
        """Whether there is anything to `finish_beginning`."""
        return self._doors is not None or self._keepers.cgroups is not None

    def prepare(self) -> None:
        """While the sandbox is being made, so that nothing may fail here.

        Doors that could not be started are tried once more, and told, when they are opened.
        """
        if self._doors is not None:
            with contextlib.suppress(SandboxError, OSError):
                self._doors.start()

    def begin(self, init_pid: int) -> None:
        limits = self._task.limits
        counted_by_kernel = self._keepers.cgroups is not None
        try:
            if limits.workspace_bytes:
                self._watch_disk(init_pid)
            if (limits.memory_bytes or limits.cpu_seconds) and not counted_by_kernel:
                self._watch(ProcessUsage(limits, init_pid), self._keepers.looks)
        except OSError as error:
            raise SandboxError(f"the agent's limits cannot be kept: {error}") from error
        if os.geteuid() == 0:
            _offer_to_the_oom_killer(_children(init_pid))

    async def finish_beginning(self, init_pid: int) -> None:
        if self._keepers.cgroups is not None:
            await self._enter_cgroup(self._keepers.cgroups, init_pid)
        if self._doors is not None:
            await self._doors.open(init_pid)

    async def end(self) -> None:
        """Raises nothing but a cancellation, and that only when all is done."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._leave_cgroup)
            if self._doors is not None:
                stack.push_async_callback(self._doors.close)
            for watchdog in self._watchdogs:
                stack.push_async_callback(watchdog.stop)

    def _watch_disk(self, init_pid: int) -> None:
        directories = written_directories(self._task)
        gauge = DiskUsage(self._task.limits, directories, DeletedFiles(init_pid))
        self._watch(gauge, self._keepers.walks)

    def _watch(self, gauge: Gauge, executor: Executor) -> None:
        self._watchdogs.append(Watchdog(gauge, executor, self._bark))

    def _bark(self, exceeded: str) -> None:
        self.exceeded = self.exceeded or exceeded
        self._kill()

    async def _enter_cgroup(self, cgroups: Cgroups, init_pid: int) -> None:
        def enter() -> None:
            self._cgroup = cgroups.new(self._task.limits)
            self._cgroup.add([init_pid, *_children(init_pid)])

        # In a thread: moving a process can take the kernel many milliseconds.
        entering = asyncio.get_running_loop().run_in_executor(self._keepers.looks, enter)
        try:
            await outlast(entering)
        finally:
            failure = entering.exception()
        if failure is not None:
            raise SandboxError(f"the agent's limits cannot be kept: {failure}") from failure
        assert self._cgroup is not None
        self._watch(self._cgroup, self._keepers.looks)

    def _leave_cgroup(self) -> None:
        if self._cgroup is None or self._keepers.cgroups is None:
            return
        with contextlib.suppress(OSError):
            self.exceeded = self.exceeded or self._cgroup.look()
        self._keepers.cgroups.discard(self._cgroup)


def _offer_to_the_oom_killer(pids: Iterable[int]) -> None:
    # The launching shell did so too; what a privileged process sets, the agent cannot take back.
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(OOM_SCORE)


def _children(pid: int) -> list[int]:
    """None if it is gone by now."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []
