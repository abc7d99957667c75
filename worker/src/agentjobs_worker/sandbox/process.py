"""No sandbox: the agent is an ordinary process of the service's user.

Only for `sandbox = "none"`. It kills the agent's process group and limits the sizes of files and of
the workspace. It does not stop processes that leave the group, and does not limit memory, access to
the service's files or the network.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from agentjobs_worker.sandbox.child import Child, wait_despite_cancellation
from agentjobs_worker.sandbox.disk import DiskUsage, SharedDisk, writable_directories
from agentjobs_worker.sandbox.environment import agent_environment
from agentjobs_worker.sandbox.output_tail import OutputTail
from agentjobs_worker.sandbox.pipes import OutputPipe
from agentjobs_worker.sandbox.ports import SandboxPorts
from agentjobs_worker.sandbox.priority import NICE_INCREMENT
from agentjobs_worker.sandbox.protocol import (
    BeforeStart,
    OnOutput,
    SandboxError,
    SandboxReport,
    SandboxTask,
    SandboxUnavailable,
)
from agentjobs_worker.sandbox.watchdog import Watchdog, WatchThread

log = logging.getLogger(__name__)

WARNING = (
    'sandbox = "none": agents run WITHOUT a sandbox, as the user of this service, with its files '
    "and its network. Anyone who can start a job can take over this account."
)
_NO_LAYERS = 'an environment needs a sandbox: set sandbox = "bubblewrap"'
# We cannot wait for the other members of the group: poll for up to a second after the kill.
GROUP_POLLS = 200
GROUP_POLL_SECONDS = 0.005
_NICE = ("nice", "-n", str(NICE_INCREMENT))


class ProcessSandbox:
    fetches_images = False

    def __init__(self, *, disk_floor_bytes: int = 0) -> None:
        self._disk = SharedDisk(disk_floor_bytes)
        self._disk_thread = WatchThread("agentjobs-disk")

    def owner_uid(self, slot: int) -> int | None:  # noqa: ARG002 - required by the protocol
        return None

    async def check(self) -> None:
        log.warning(WARNING)

    async def check_layers(self, directory: Path) -> None:  # noqa: ARG002 - as above
        raise SandboxUnavailable(_NO_LAYERS)

    def prepare(self, task: SandboxTask) -> None:
        """There is nothing to create."""

    async def discard(self, workspace: Path) -> None: ...

    async def run(
        self, task: SandboxTask, on_output: OnOutput, before_start: BeforeStart | None = None
    ) -> SandboxReport:
        if task.layers:
            raise SandboxError(_NO_LAYERS)
        if task.on_running is not None:
            raise SandboxError('a service needs a sandbox: set sandbox = "bubblewrap"')
        if before_start is not None:
            await before_start()
        async with contextlib.AsyncExitStack() as stack:
            ports = SandboxPorts(task.ports)
            stack.push_async_callback(ports.close)
            addresses = await ports.open_on_host()
            home = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="agentjobs-home-", ignore_cleanup_errors=True)
            )
            return await self._run(_Spawn(task, Path(home), addresses), on_output)

    async def _run(self, spawn: "_Spawn", on_output: OnOutput) -> SandboxReport:
        started = time.monotonic()
        task = spawn.task
        exceeded: list[str] = []
        process = _GroupedProcess(spawn, on_output)

        def on_exceeded(limit: str) -> None:
            exceeded.append(limit)
            process.kill()

        watchdog = None
        try:
            watchdog = self._watch(task, on_exceeded)
            done, _ = await asyncio.wait({process.ended}, timeout=task.timeout_seconds)
        finally:
            process.kill()
            try:
                await wait_despite_cancellation(process.ended)
            finally:
                process.close()
                if watchdog is not None:
                    await watchdog.stop()
        if process.failure is not None:
            raise process.failure
        return SandboxReport(
            exit_code=process.exit_code if done and not exceeded else None,
            timed_out=not done and not exceeded,
            exceeded=exceeded[0] if exceeded else None,
            last_lines=process.tail.last_lines(),
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def _watch(self, task: SandboxTask, on_exceeded: Callable[[str], None]) -> Watchdog | None:
        if not task.limits.workspace_bytes and not self._disk.critical_bytes:
            return None
        try:
            gauge = DiskUsage(task.limits, writable_directories(task), shared=self._disk)
            watchdog = Watchdog(gauge, on_exceeded)
            self._disk_thread.add(watchdog)
        except (OSError, RuntimeError) as error:
            raise SandboxError(f"the agent's limits cannot be enforced: {error}") from error
        return watchdog


class _Spawn(msgspec.Struct, frozen=True):
    """A task and what this sandbox adds to it."""

    task: SandboxTask
    home: Path
    addresses: Mapping[int, str]

    def start(self, output: int) -> subprocess.Popen[bytes]:
        limits = self.task.limits.shell_commands(own_user=False)
        return subprocess.Popen(
            # A shell exits with 127 for an unknown command, as in a sandbox.
            [*_NICE, "sh", "-c", f'{limits}; exec "$@"', "agentjobs", *self.task.argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self.task.workspace,
            env=self._environment(),
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        return agent_environment(
            self.task,
            path=os.environ.get("PATH", os.defpath),
            home=self.home,
            temporary=self.home,
            run_dir=self.task.run_dir.absolute(),
            to_address=lambda port: self.addresses[port.number],
        )


class _GroupedProcess:
    """`ended` is done when the first process and all others in its group are dead."""

    def __init__(self, spawn: _Spawn, on_output: OnOutput) -> None:
        self.tail = OutputTail()
        self._on_output = on_output
        self._output = OutputPipe(self._receive, self.kill)
        try:
            self._process = spawn.start(self._output.write_end)
            self._child = Child(self._process.pid)
        except (OSError, ValueError) as error:
            self._output.finish()
            raise SandboxError(f"the agent did not start: {error}") from error
        self._output.start()
        self.ended = asyncio.get_running_loop().create_task(self._end())

    @property
    def exit_code(self) -> int | None:
        """The exit code as a shell reports it: 128 plus the number of the signal that killed it."""
        code = self._process.returncode
        return 128 - code if code is not None and code < 0 else code

    @property
    def failure(self) -> Exception | None:
        return self._output.failure

    def kill(self) -> None:
        # The group's number stays valid until its leader is reaped.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self._process.wait()
        self._output.finish()
        self._child.close()

    async def _end(self) -> None:
        await self._child.ended
        self.kill()
        self._process.wait()
        for _ in range(GROUP_POLLS):
            if not _has_living_member(self._process.pid):
                return
            await asyncio.sleep(GROUP_POLL_SECONDS)

    def _receive(self, chunk: bytes) -> None:
        self.tail.add(chunk)
        self._on_output(chunk)


def _has_living_member(group: int) -> bool:
    return any(_is_living_member(entry, group) for entry in Path("/proc").glob("[0-9]*"))


def _is_living_member(entry: Path, group: int) -> bool:
    try:
        # The name before the bracket may contain anything; then follow state, parent and group.
        state, _, process_group = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(process_group) == group and state != b"Z"
