"""One service: its sandbox, from the start until all its processes are dead, and its relay."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.output_tail import OutputTail
from agentjobs_worker.sandbox.port_relay import MAX_PORTS
from agentjobs_worker.sandbox.protocol import (
    OnOutput,
    RunningSandbox,
    Sandbox,
    SandboxError,
    SandboxPort,
    SandboxReport,
    SandboxTask,
)

_POLL_SECONDS = 0.05
# Without a `ready` command: a service may open its ports one after the other.
_SETTLE_SECONDS = 0.25
_END_SECONDS = 10
_READY_FILE = "ready"
# The first argument is the `ready` command, the others start the service. A service may not expect
# a child that it did not start, so the check is none.
_START_WITH_CHECK = f"""
check() {{
  until output=$(sh -c "$1" 2>&1); do
    [ "$output" = "$previous" ] || printf 'not ready: %s\\n' "$output"
    previous=$output
    sleep 0.1 2>/dev/null || sleep 1
  done
  : >"${{AGENTJOBS_REPORT%/*}}/{_READY_FILE}"
}}
(check "$1" &)
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTask:
    """`task` has a slot, a workspace and a run directory of its own. It ends with the job.

    `ready` is a shell command that succeeds once the service can be used. Without one, that is when
    it listens on a port.
    """

    name: str
    task: SandboxTask
    ready: str = ""


class ServiceFailed(Exception):
    """`last_lines` is the end of the service's output."""

    def __init__(self, name: str, reason: str, last_lines: str = "") -> None:
        super().__init__(f"service {name} {reason}")
        self.name = name
        self.last_lines = last_lines


class RunningService:
    """Starts at once; always `stop` it. `port_numbers` are known when it is ready."""

    def __init__(self, service: ServiceTask, sandbox: Sandbox, on_output: OnOutput) -> None:
        self.name = service.name
        self.port_numbers: list[int] = []
        self._service = service
        self._on_output = on_output
        self._tail = OutputTail()
        self._way_in: RunningSandbox | None = None
        self._is_ready = not service.ready
        self._is_connected = asyncio.Event()
        running = sandbox.run(self._sandbox_task(), self._receive)
        self._running = asyncio.get_running_loop().create_task(running)

    def ports(self) -> tuple[SandboxPort, ...]:
        way_in = self._way_in
        if way_in is None or self._running.done():
            return ()
        return tuple(map(way_in.port, self.port_numbers))

    async def wait_until_ready(self, seconds: float) -> None:
        """Raises ServiceFailed, or SandboxError if the sandbox did not start.

        The time for its sandbox, whose image may have to be fetched, does not count.
        """
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(self._is_connected.wait())
        finding = loop.create_task(self._find_ports())
        try:
            for future, timeout in ((connecting, None), (finding, seconds)):
                await asyncio.wait(
                    {future, self._running}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
            self.check()
            if not finding.done():
                raise self.failure(self._unready_reason(seconds))
            self.port_numbers = finding.result()
        finally:
            for task in (connecting, finding):
                task.cancel()
            await asyncio.gather(connecting, finding, return_exceptions=True)

    def check(self) -> None:
        """Raises ServiceFailed or SandboxError if it has ended."""
        if self._running.done():
            raise self.failure(_end_reason(self._running.result()))

    def call_at_end(self, on_end: Callable[[ServiceFailed], None]) -> None:
        """Unless it is stopped."""

        def report_end(running: asyncio.Task[SandboxReport]) -> None:
            if running.cancelled():
                return
            error = running.exception()
            reason = _end_reason(running.result()) if error is None else f"ended: {error}"
            on_end(self.failure(reason))

        self._running.add_done_callback(report_end)

    def kill(self) -> None:
        self._running.cancel()

    async def stop(self) -> None:
        self.kill()
        try:
            await wait_despite_cancellation(self._running)
            # The error of a service that could not run was reported, or is not needed any more.
            await asyncio.gather(self._running, return_exceptions=True)
        finally:
            if self._way_in is not None:
                self._way_in.close()

    def failure(self, reason: str) -> ServiceFailed:
        return ServiceFailed(self.name, reason, self._tail.last_lines())

    def _sandbox_task(self) -> SandboxTask:
        task = self._service.task
        argv = task.argv
        if self._service.ready:
            argv = ("sh", "-c", _START_WITH_CHECK, "sh", self._service.ready, *argv)
        return dataclasses.replace(task, argv=argv, on_running=self._connect)

    def _receive(self, chunk: bytes) -> None:
        self._tail.add(chunk)
        self._on_output(chunk)

    def _connect(self, way_in: RunningSandbox) -> None:
        self._way_in = way_in
        self._is_connected.set()

    async def _find_ports(self) -> list[int]:
        await self._is_connected.wait()
        assert self._way_in is not None
        try:
            ports = await self._ready_ports(self._way_in)
        except OSError as error:
            # A service that has ended is reported as such when its sandbox is gone.
            await asyncio.wait({self._running}, timeout=_END_SECONDS)
            raise SandboxError(f"the ports of service {self.name} are unknown: {error}") from error
        if len(ports) > MAX_PORTS:
            raise self.failure(f"listens on more than {MAX_PORTS} ports")
        return ports

    async def _ready_ports(self, way_in: RunningSandbox) -> list[int]:
        while not self._is_ready:
            self._is_ready = await way_in.has_reported(_READY_FILE)
            await asyncio.sleep(0 if self._is_ready else _POLL_SECONDS)
        previous: list[int] = []
        while True:
            ports = await way_in.listening_ports()
            if ports and (self._service.ready or ports == previous):
                return ports
            previous = ports
            await asyncio.sleep(_SETTLE_SECONDS if ports else _POLL_SECONDS)

    def _unready_reason(self, seconds: float) -> str:
        if not self._is_ready:
            return f"was not ready after {seconds:g} seconds: its `ready` command did not succeed"
        return f"listens on no TCP port of 127.0.0.1 after {seconds:g} seconds"


def _end_reason(report: SandboxReport) -> str:
    if report.exceeded:
        return f"used more than {report.exceeded}"
    return "ran out of time" if report.timed_out else f"ended with exit code {report.exit_code}"
