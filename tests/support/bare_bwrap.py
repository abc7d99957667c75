"""A minimal sandbox with its own network namespace, for tests of ports."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

_OPTIONS = (
    *("bwrap", "--unshare-pid", "--unshare-net", "--die-with-parent"),
    *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"),
)
_AS_A_USER = ("--unshare-user", "--disable-userns")
_GATE = 'echo up; read -r go; exec "$@"'


class BareSandbox:
    """The command waits for `run`, so that a test can open ports first."""

    def __init__(self, process: asyncio.subprocess.Process, init_pid: int) -> None:
        self.init_pid = init_pid
        self._process = process

    async def run(self) -> str:
        """Start the command and return its output, both streams merged."""
        output, _ = await asyncio.wait_for(self._process.communicate(b"go\n"), 60)
        return output.decode()

    async def run_in_background(self) -> asyncio.subprocess.Process:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()
        return self._process


@contextlib.asynccontextmanager
async def bare_sandbox(
    *argv: str, options: Sequence[str] = (), environment: dict[str, str] | None = None
) -> AsyncIterator[BareSandbox]:
    process = await asyncio.create_subprocess_exec(
        *_OPTIONS,
        *(() if os.geteuid() == 0 else _AS_A_USER),
        *options,
        *("sh", "-c", _GATE, "sh", *argv),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], **(environment or {})},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"up\n", await process.stdout.read()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield BareSandbox(process, int(children))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.stdin.close()
        await process.communicate()
