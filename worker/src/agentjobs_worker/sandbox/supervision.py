"""Enforces the limits of one running sandbox and serves its ports.

Starts when the sandbox is ready and the agent has not started; ends when all processes are dead.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen

from agentjobs_runtime.sandboxes.limits import OOM_SCORE
from agentjobs_worker.sandbox.cgroup import Cgroup, Cgroups
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.deleted_files import DeletedFiles
from agentjobs_worker.sandbox.disk import DiskUsage, SharedDisk, writable_directories
from agentjobs_worker.sandbox.mounts import scratch_directories
from agentjobs_worker.sandbox.ports import SandboxPorts
from agentjobs_worker.sandbox.priority import lower_priority, restore_priority
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxTask
from agentjobs_worker.sandbox.relay_process import RelayProcess, enter_sandbox
from agentjobs_worker.sandbox.usage import ProcessUsage
from agentjobs_worker.sandbox.watchdog import Gauge, Watchdog, WatchThread

# Starts bwrap behind these arguments.
Start = Callable[[Sequence[str]], Popen[bytes]]


class SharedResources:
    """What all sandboxes of this service share: threads for gauges, and cgroups if delegated."""

    def __init__(
        self,
        cgroups: Cgroups | None = None,
        disk_floor_bytes: int = 0,
        uid_base: int | None = None,
    ) -> None:
        self.cgroups = cgroups
        self.uid_base = uid_base
        self.disk = SharedDisk(disk_floor_bytes)
        self.limits_thread = WatchThread("agentjobs-limits")
        # Separate, so that measuring a large tree does not delay measuring memory.
        self.disk_thread = WatchThread("agentjobs-disk")
        # The kernel kills a sandbox when the thread that started it ends, so this one stays.
        self.spawn_executor = ThreadPoolExecutor(1, thread_name_prefix="agentjobs-spawn")
        self.removal_executor = ThreadPoolExecutor(1, thread_name_prefix="agentjobs-removal")


class Supervision:
    """`exceeded` is the limit for which `kill` was called, as text."""

    def __init__(
        self, task: SandboxTask, shared: SharedResources, kill: Callable[[], None]
    ) -> None:
        self.exceeded: str | None = None
        self._task = task
        self._shared = shared
        self._kill = kill
        self._cgroup: Cgroup | None = None
        self._watchdogs: list[Watchdog] = []
        self._ports: SandboxPorts | None = None

    def attach(self, task: SandboxTask) -> None:
        """The sandbox is for this task, whose limits and directories are those it was created with.

        Raises SandboxError.
        """
        self._task = task
        if task.ports:
            self._ports = SandboxPorts(task.ports)
            # `open` retries a failed start and reports the error.
            with contextlib.suppress(SandboxError, OSError):
                self._ports.start()

    def spawn(self, start: Start) -> asyncio.Future[Popen[bytes]]:
        """Start bwrap in a thread, which takes milliseconds. Raises OSError and SandboxError."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._shared.spawn_executor, self._spawn, start)

    def enclose(self, init_pid: int) -> None:
        """The sandbox is ready. Later processes inherit what is set here."""
        # Not the first process, which waits for the others and has to end the sandbox.
        pids = _children(init_pid)
        lower_priority(pids)
        if os.geteuid() == 0:
            _prefer_for_oom_kill(pids)

    async def start(self, init_pid: int) -> None:
        """Watch the limits from now on, and serve the ports. Raises SandboxError."""
        self._watch_limits(init_pid)
        if self._ports is not None:
            await self._ports.open(init_pid)
        if self._task.on_running is not None:
            self._task.on_running(await self._open_way_in(init_pid))

    def prepare_kill(self) -> None:
        """Let the agent's processes end quickly on a busy machine."""
        with contextlib.suppress(OSError):
            if self._cgroup is not None:
                self._cgroup.kill()
            if self._shared.uid_base is not None:
                restore_priority(self._shared.uid_base + self._task.slot)

    async def end(self) -> None:
        """Raises only a cancellation, after everything is closed."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._leave_cgroup)
            if self._ports is not None:
                stack.push_async_callback(self._ports.close)
            for watchdog in self._watchdogs:
                stack.push_async_callback(watchdog.stop)

    async def clean_up(self, remove: Callable[[], None]) -> None:
        """Remove files in a thread."""
        loop = asyncio.get_running_loop()
        await wait_despite_cancellation(loop.run_in_executor(self._shared.removal_executor, remove))

    async def _open_way_in(self, init_pid: int) -> RelayProcess:
        uid_base, slot = self._shared.uid_base, self._task.slot
        uid = None if uid_base is None else uid_base + slot
        try:
            return await enter_sandbox(init_pid, uid, self._task.run_dir)
        except OSError as error:
            raise SandboxError(f"the network of the sandbox could not be used: {error}") from error

    def _watch_limits(self, init_pid: int) -> None:
        limits = self._task.limits
        try:
            if limits.workspace_bytes or self._shared.disk.critical_bytes:
                self._watch_disk(init_pid)
            if (limits.memory_bytes or limits.cpu_seconds) and self._shared.cgroups is None:
                usage = ProcessUsage(limits, init_pid, scratch_directories(self._task))
                self._watch(usage, self._shared.limits_thread)
            if self._cgroup is not None:
                self._watch(self._cgroup, self._shared.limits_thread)
        except (OSError, RuntimeError) as error:
            raise _unenforceable(error) from error

    def _watch_disk(self, init_pid: int) -> None:
        directories = writable_directories(self._task)
        deleted = DeletedFiles(init_pid, [layer.inside for layer in self._task.layers])
        gauge = DiskUsage(self._task.limits, directories, deleted, self._shared.disk)
        self._watch(gauge, self._shared.disk_thread)

    def _watch(self, gauge: Gauge, thread: WatchThread) -> None:
        self._watchdogs.append(Watchdog(gauge, self._on_exceeded))
        thread.add(self._watchdogs[-1])

    def _on_exceeded(self, exceeded: str) -> None:
        self.exceeded = self.exceeded or exceeded
        self._kill()

    def _spawn(self, start: Start) -> Popen[bytes]:
        if self._shared.cgroups is None:
            return start(())
        try:
            self._cgroup = self._shared.cgroups.create(self._task.limits)
        except OSError as error:
            raise _unenforceable(error) from error
        return start(self._cgroup.entry_command)

    def _leave_cgroup(self) -> None:
        if self._cgroup is None or self._shared.cgroups is None:
            return
        with contextlib.suppress(OSError):
            self.exceeded = self.exceeded or self._cgroup.exceeded_limit()
        self._shared.cgroups.discard(self._cgroup)


def _unenforceable(error: BaseException) -> SandboxError:
    return SandboxError(f"the agent's limits cannot be enforced: {error}")


def _prefer_for_oom_kill(pids: Iterable[int]) -> None:
    # The shell does the same, but the agent cannot undo what a privileged process sets.
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(OOM_SCORE)


def _children(pid: int) -> list[int]:
    """Empty if it has ended."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []
