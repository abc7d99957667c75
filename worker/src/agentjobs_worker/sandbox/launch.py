"""One bwrap process, from its start until every process in its pid namespace is dead.

Owns the handshake: the sandbox reports that it is ready, and gets the agent's command only when
the caller allows it and the service supervises the sandbox and can kill it. So neither a cancelled
start nor a killed service leaves an agent running.
"""

import asyncio
import contextlib
from pathlib import Path
from subprocess import Popen

from agentjobs_worker.sandbox.bwrap_command import BwrapCommand
from agentjobs_worker.sandbox.child import Child, wait_despite_cancellation
from agentjobs_worker.sandbox.output_tail import OutputTail
from agentjobs_worker.sandbox.pipes import InputPipe, OutputPipe
from agentjobs_worker.sandbox.protocol import OnOutput, SandboxError, SandboxTask
from agentjobs_worker.sandbox.start_script import READY_MARK, prepare_commands
from agentjobs_worker.sandbox.supervision import SharedResources, Supervision

# A sandbox that becomes ready after `kill` exits within milliseconds; this is for one that hangs.
ABORT_GRACE_SECONDS = 0.5


class Launch:
    """`ended` is done when all its processes are dead; `is_started`: the agent has started.

    `tail` holds the output of bwrap until the sandbox is ready, then the agent's.
    """

    def __init__(self, command: BwrapCommand, task: SandboxTask, shared: SharedResources) -> None:
        self.is_started = False
        self.tail = OutputTail()
        self._on_output: OnOutput | None = None
        self._supervision = Supervision(task, shared, self.kill)
        self._error: SandboxError | None = None
        self._start_commands = b""
        self._is_ready = asyncio.Event()
        self._is_attached = asyncio.Event()
        self._may_start = asyncio.Event()
        self._is_killed = False
        self._process: Popen[bytes] | None = None
        self._init: Child | None = None
        self._loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as cleanup:
            # Closed after the pidfds, so that no agent starts unwatched.
            self._input = InputPipe()
            cleanup.callback(self._input.close)
            self._input.write(prepare_commands(None if command.mounts else task.limits))
            self._output = OutputPipe(self._receive, self.kill)
            cleanup.callback(self._output.finish)
            self._cleanup = cleanup.pop_all()
        self.ended = self._loop.create_task(self._run(command))

    @property
    def exit_code(self) -> int | None:
        """Negative if a signal killed bwrap."""
        return None if self._process is None else self._process.returncode

    @property
    def exited_normally(self) -> bool:
        return self.is_started and self.exit_code is not None and self.exit_code >= 0

    @property
    def failure(self) -> Exception | None:
        return self._output.failure or self._error

    @property
    def exceeded(self) -> str | None:
        """Final when `ended` is done."""
        return self._supervision.exceeded

    def attach(self, task: SandboxTask, start_commands: bytes, on_output: OnOutput) -> None:
        """The sandbox is for this task. Supervise it from now on, or when it is ready."""
        self._supervision.attach(task)
        self._on_output = on_output
        self._start_commands = start_commands
        self._is_attached.set()

    def start_when_ready(self) -> None:
        self._may_start.set()

    def kill(self) -> None:
        """Kill it at once if it is ready; otherwise let bwrap finish and exit at the closed pipe.

        Killing bwrap while it creates the sandbox would leave a process waiting for it for ever.
        """
        if self._is_killed:
            return
        self._is_killed = True
        self._input.end()
        if self._is_ready.is_set():
            self._kill_now()
        elif self._process is not None:
            self._kill_later()

    def close(self) -> None:
        self._cleanup.close()

    async def _run(self, command: BwrapCommand) -> None:
        try:
            await self._spawn(command)
        except SandboxError as error:
            self._error = error
        except (OSError, RuntimeError, ValueError) as error:
            self._error = SandboxError(f"the sandbox did not start: {error}")
            self._error.__cause__ = error
        else:
            starting = self._loop.create_task(self._start())
            try:
                await self._wait_until_dead()
            finally:
                starting.cancel()
                await wait_despite_cancellation(starting)
        finally:
            await self._supervision.end()
            if command.mounts is not None:
                await self._supervision.clean_up(command.clean_up)

    async def _spawn(self, command: BwrapCommand) -> None:
        spawning = self._supervision.spawn(
            lambda entry: command.start(
                entry, stdin=self._input.read_end, output=self._output.write_end
            )
        )
        await wait_despite_cancellation(spawning)
        self._process = spawning.result()
        self._cleanup.callback(self._process.wait)
        self._cleanup.callback(self._process.kill)
        self._monitor = Child(self._process.pid)
        self._cleanup.callback(self._monitor.close)
        self._output.start()
        if self._is_killed:
            self._kill_later()

    async def _start(self) -> None:
        await self._is_ready.wait()
        await self._is_attached.wait()
        try:
            assert self._init is not None
            await self._supervision.start(self._init.pid)
        except SandboxError as error:
            self._error = error
            self.kill()
            return
        await self._may_start.wait()
        if not self._is_killed:
            self.is_started = True
            self._input.write(self._start_commands)

    async def _wait_until_dead(self) -> None:
        await self._monitor.ended
        if self._init is not None:
            self._init.kill()
            await self._init.ended
            self._init.reap_if_ours()
        assert self._process is not None
        self._process.wait()

    def _receive(self, chunk: bytes) -> None:
        if not self._is_ready.is_set():
            message, ready_mark, chunk = chunk.partition(READY_MARK)
            self.tail.add(message)
            if ready_mark:
                self._on_ready()
        if chunk:
            self.tail.add(chunk)
            if self._on_output is not None:
                self._on_output(chunk)

    def _on_ready(self) -> None:
        self._find_init()
        if self._init is None or self._is_killed:
            self._kill_now()
            return
        self.tail = OutputTail()
        self._supervision.enclose(self._init.pid)
        self._is_ready.set()

    def _kill_later(self) -> None:
        timer = self._loop.call_later(ABORT_GRACE_SECONDS, self._kill_now)
        self._cleanup.callback(timer.cancel)

    def _kill_now(self) -> None:
        self._find_init()
        self._supervision.prepare_kill()
        if self._init is not None:
            self._init.kill()
        self._monitor.kill()

    def _find_init(self) -> None:
        """Find the first process of the pid namespace, which is bwrap's only child."""
        if self._init is None and not self._monitor.ended.done():
            pid = self._monitor.pid
            with contextlib.suppress(OSError, ValueError):
                self._init = Child(int(Path(f"/proc/{pid}/task/{pid}/children").read_text()))
                self._cleanup.callback(self._init.close)
