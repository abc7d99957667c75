"""A process, such as git, with its streams on the event loop.

Started by `subprocess.Popen`, which uses vfork. uvloop would fork, which copies the page tables of
the whole service and blocks every other request meanwhile.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self


class GitChild:
    """The part of asyncio's `Process` interface that its users need; must be closed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._transports: list[asyncio.BaseTransport] = []
        pipes = (process.stdin, process.stdout, process.stderr)
        self._unconnected_pipes = [pipe for pipe in pipes if pipe is not None]
        # CPU time of the process and its children, known once it has ended.
        self.cpu_seconds = 0.0
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._on_end)
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path | str,
        environment: Mapping[str, str],
        stdin: int,
        stderr: int,
        buffer_bytes: int,
    ) -> Self:
        # A new process group, so that the transport processes of git die with it. Not a new
        # session: Linux shares CPU time among sessions first, and a lower priority has an effect
        # only within one.
        process = subprocess.Popen(  # noqa: ASYNC220 - the fastest way, see above
            command,
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            process_group=0,
        )
        child = None
        try:
            child = cls(process)
            await child._connect(buffer_bytes)
        except BaseException:
            # The caller never got the child, so it must be killed here.
            if child is not None:
                child.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        await asyncio.shield(self._ended)
        return self._process.wait()

    def close(self) -> None:
        """Close the streams, even if they were not read to the end."""
        for transport in self._transports:
            transport.close()
        for pipe in self._unconnected_pipes:
            pipe.close()

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.cpu_seconds = _read_cpu_seconds(self.pid)
        self._process.poll()
        self._ended.set_result(None)

    async def _connect(self, buffer_bytes: int) -> None:
        pipes = self._process
        if pipes.stdin is not None:
            self.stdin = await self._writer(pipes.stdin)
        if pipes.stdout is not None:
            self.stdout = await self._reader(pipes.stdout, buffer_bytes)
        if pipes.stderr is not None:
            self.stderr = await self._reader(pipes.stderr, buffer_bytes)

    def _hand_over(self, pipe: IO[bytes]) -> "LoopPipe":
        self._unconnected_pipes.remove(pipe)
        with pipe:
            return LoopPipe(os.dup(pipe.fileno()), self._loop)

    async def _reader(self, pipe: IO[bytes], buffer_bytes: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=buffer_bytes)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._hand_over(pipe)
        )
        self._transports.append(transport)
        return reader

    async def _writer(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self._hand_over(pipe)
        )
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, self._loop)


def _read_cpu_seconds(pid: int) -> float:
    """CPU time of a process that was not waited for, and of children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class LoopPipe:
    """An end of a pipe that only the event loop uses, and that is closed once.

    uvloop closes the descriptor by number and then the given object. By that time, the number may
    belong to a file that another thread (such as the store's) has opened.
    """

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._is_closed_by_number = type(loop).__module__.startswith("uvloop")

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if not self._is_closed_by_number:
            os.close(self._descriptor)
