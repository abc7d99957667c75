"""No sandbox at all: the agent is an ordinary process of the service's user.

Only for `sandbox = "none"`, set by hand. It ends the agent's process group, nothing more: what
leaves that group, reads the service's files or uses the network is not held back.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from agentjobs.sandbox.child import Child, outlast
from agentjobs.sandbox.environment import agent_environment
from agentjobs.sandbox.last_words import Tail
from agentjobs.sandbox.output import OutputPipe
from agentjobs.sandbox.protocol import OnOutput, SandboxError, SandboxReport, SandboxTask

log = logging.getLogger(__name__)

WARNING = (
    'sandbox = "none": agents run WITHOUT a sandbox, as the user of this service, with its files '
    "and its network. Anyone who can start a job can take over this account."
)
# The other members of the group are not ours to wait for: looked for, once killed, for a second.
GROUP_POLLS = 200
GROUP_POLL_SECONDS = 0.005


class ProcessSandbox:
    def owner_uid(self, slot: int) -> int | None:  # noqa: ARG002 - the protocol's form
        return None

    async def check(self) -> None:
        log.warning(WARNING)

    async def run(self, task: SandboxTask, on_output: OnOutput) -> SandboxReport:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(
            prefix="agentjobs-home-", ignore_cleanup_errors=True
        ) as home:
            process = _GroupedProcess(task, Path(home), on_output)
            try:
                ended, _ = await asyncio.wait({process.gone}, timeout=task.timeout_seconds)
            finally:
                process.kill()
                try:
                    await outlast(process.gone)
                finally:
                    process.close()
        if process.failure is not None:
            raise process.failure
        return SandboxReport(
            exit_code=process.exit_code if ended else None,
            timed_out=not ended,
            last_lines=process.tail.last_lines(),
            duration_ms=round((time.monotonic() - started) * 1000),
        )


class _GroupedProcess:
    """`gone` is done when the first process and all that stayed in its group are dead."""

    def __init__(self, task: SandboxTask, home: Path, on_output: OnOutput) -> None:
        self.tail = Tail()
        self._on_output = on_output
        self._output = OutputPipe(self._receive, self.kill)
        try:
            self._process = _spawn(task, home, self._output.write_end)
            self._child = Child(self._process.pid)
        except (OSError, ValueError) as error:
            self._output.finish()
            raise SandboxError(f"the agent could not be started: {error}") from error
        self._output.start()
        self.gone = asyncio.get_running_loop().create_task(self._end())

    @property
    def exit_code(self) -> int | None:
        """As a shell tells it: 128 and the signal's number for a killed process."""
        code = self._process.returncode
        return 128 - code if code is not None and code < 0 else code

    @property
    def failure(self) -> Exception | None:
        return self._output.failure

    def kill(self) -> None:
        # The group keeps its number as long as its leader has not been waited for.
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


def _spawn(task: SandboxTask, home: Path, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # By a shell, so that an unknown command ends as it does in a sandbox: with 127.
        ["sh", "-c", 'exec "$@"', "agentjobs", *task.argv],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=task.workspace,
        env=agent_environment(
            task,
            path=os.environ.get("PATH", os.defpath),
            home=home,
            temporary=home,
            run_dir=task.run_dir.absolute(),
        ),
        start_new_session=True,
    )


def _has_living_member(group: int) -> bool:
    return any(_is_living_member(entry, group) for entry in Path("/proc").glob("[0-9]*"))


def _is_living_member(entry: Path, group: int) -> bool:
    try:
        # The name before the bracket may hold anything; then come state, parent and group.
        state, _, process_group = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(process_group) == group and state != b"Z"
