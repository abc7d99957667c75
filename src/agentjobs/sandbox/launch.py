"""One bwrap process, from its start until every process in its pid namespace is dead.

Owns the handshake: the sandbox says that it is up, and only a living service that supervises and
can kill it lets the agent begin. So neither a cancelled start nor a killed service leaves an agent
behind.
"""

import asyncio
import contextlib
import os
from pathlib import Path

from agentjobs.sandbox.bwrap_command import BwrapCommand
from agentjobs.sandbox.child import Child, outlast
from agentjobs.sandbox.output import OutputPipe
from agentjobs.sandbox.output_tail import Tail
from agentjobs.sandbox.protocol import OnOutput, SandboxError, SandboxTask
from agentjobs.sandbox.supervision import Keepers, Supervision

UP = b"\0"
GO = b"\n"
# What the sandbox runs first: report, wait for the word, become the agent. End of file instead of
# a word means that the agent is not wanted any more, or that the service is gone.
GATE = "printf '\\0'; read -r go || exit 125; exec \"$@\" </dev/null"
# A closed gate ends a sandbox within milliseconds of its being up; this is for one that hangs.
CLOSED_GATE_SECONDS = 0.5


class Launch:
    """`gone` is done when nothing of it is alive; `is_up` says whether the agent began.

    Until it is up, `tail` has the words of bwrap, afterwards the agent's.
    """

    def __init__(
        self, command: BwrapCommand, task: SandboxTask, keepers: Keepers, on_output: OnOutput
    ) -> None:
        self.is_up = False
        self.tail = Tail()
        self._on_output = on_output
        self._supervision = Supervision(task, keepers, self.kill)
        self._opening: asyncio.Task[None] | None = None
        self._error: SandboxError | None = None
        self._is_made = False
        self._is_wanted = True
        self._init: Child | None = None
        self._loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as held:
            self._start(command, held)
            self._held = held.pop_all()
        self.gone = self._loop.create_task(self._end())

    @property
    def exit_code(self) -> int | None:
        """Negative if bwrap itself was killed."""
        return self._process.returncode

    @property
    def ended_by_itself(self) -> bool:
        return self.is_up and self.exit_code is not None and self.exit_code >= 0

    @property
    def failure(self) -> Exception | None:
        return self._output.failure or self._error

    @property
    def exceeded(self) -> str | None:
        """Known for certain once it is gone."""
        return self._supervision.exceeded

    def kill(self) -> None:
        """At once if it is made; before that bwrap finishes its work and finds the gate closed.

        Killing bwrap while it makes the sandbox would leave a process that waits for it for ever.
        """
        if not self._is_wanted:
            return
        self._is_wanted = False
        self._gate.close()
        if self._is_made:
            self._force()
        else:
            timer = self._loop.call_later(CLOSED_GATE_SECONDS, self._force)
            self._held.callback(timer.cancel)

    def close(self) -> None:
        self._held.close()

    def _start(self, command: BwrapCommand, held: contextlib.ExitStack) -> None:
        gate_read, gate_write = os.pipe()
        # Its pidfds are closed first and it last: nothing passes a gate that nobody watches.
        self._gate = held.enter_context(os.fdopen(gate_write, "wb", buffering=0))
        with os.fdopen(gate_read, "rb", buffering=0) as gate:
            self._output = OutputPipe(self._receive, self.kill)
            held.callback(self._output.finish)
            self._process = command.start(stdin=gate.fileno(), output=self._output.write_end)
        held.callback(self._process.wait)
        held.callback(self._process.kill)
        self._monitor = Child(self._process.pid)
        held.callback(self._monitor.close)
        self._output.start()
        self._supervision.prepare()

    async def _end(self) -> None:
        try:
            await self._dead()
        finally:
            await self._supervision.end()

    async def _dead(self) -> None:
        await self._monitor.ended
        if self._init is not None:
            self._init.kill()
            await self._init.ended
            self._init.reap_if_ours()
        self._process.wait()
        if self._opening is not None:
            self._opening.cancel()
            await outlast(self._opening)

    def _receive(self, chunk: bytes) -> None:
        if not self._is_made:
            words, mark, chunk = chunk.partition(UP)
            self.tail.add(words)
            if mark:
                self._made()
        if chunk:
            self.tail.add(chunk)
            self._on_output(chunk)

    def _made(self) -> None:
        self._hold_init()
        self._is_made = True
        if self._init is None or not self._is_wanted:
            self._force()
            return
        self.tail = Tail()
        try:
            self._supervision.begin(self._init.pid)
        except SandboxError as error:
            self._give_up(error)
            return
        if self._supervision.needs_time:
            self._opening = self._loop.create_task(self._open_gate_later(self._init.pid))
        else:
            self._open_gate()

    async def _open_gate_later(self, init_pid: int) -> None:
        try:
            await self._supervision.finish_beginning(init_pid)
        except SandboxError as error:
            self._give_up(error)
        else:
            self._open_gate()

    def _open_gate(self) -> None:
        if self._is_wanted:
            self.is_up = True
            with contextlib.suppress(BrokenPipeError):
                self._gate.write(GO)

    def _give_up(self, error: SandboxError) -> None:
        self._error = error
        self.kill()

    def _force(self) -> None:
        self._hold_init()
        if self._init is not None:
            self._init.kill()
        self._monitor.kill()

    def _hold_init(self) -> None:
        """The first process of the pid namespace, which bwrap has as its only child."""
        pid = self._process.pid
        if self._init is None and not self._monitor.ended.done():
            with contextlib.suppress(OSError, ValueError):
                self._init = Child(int(Path(f"/proc/{pid}/task/{pid}/children").read_text()))
                self._held.callback(self._init.close)
