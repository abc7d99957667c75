"""A git process with its streams on the event loop.

Started by `subprocess.Popen`, which uses vfork: uvloop's own way copies the page tables of the
whole service first, and holds every other request up meanwhile.
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
    """Looks like asyncio's own `Process`, as far as its users need one; `close` it at the end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._transports: list[asyncio.BaseTransport] = []
        pipes = (process.stdin, process.stdout, process.stderr)
        self._unconnected = [pipe for pipe in pipes if pipe is not None]
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._note_end)
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
        # A group of its own: the transport processes git starts die with it.
        process = subprocess.Popen(  # noqa: ASYNC220 - the quickest way there is, see above
            command,
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        child = None
        try:
            child = cls(process)
            await child._connect(buffer_bytes)
        except BaseException:
            # Cancelled before anybody knew of it: nobody else will end it.
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
        return self._process.poll()

    async def wait(self) -> int:
        await asyncio.shield(self._ended)
        return self._process.wait()

    def close(self) -> None:
        """Let go of the streams, read or not."""
        for transport in self._transports:
            transport.close()
        for pipe in self._unconnected:
            pipe.close()

    def _note_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
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

    def _handed_over(self, pipe: IO[bytes]) -> "PipeOfLoop":
        self._unconnected.remove(pipe)
        with pipe:
            return PipeOfLoop(os.dup(pipe.fileno()), self._loop)

    async def _reader(self, pipe: IO[bytes], buffer_bytes: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=buffer_bytes)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._handed_over(pipe)
        )
        self._transports.append(transport)
        return reader

    async def _writer(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self._handed_over(pipe)
        )
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, self._loop)


class PipeOfLoop:
    """An end of a pipe that is the loop's alone, and closed once.

    uvloop closes the descriptor by its number, and then the object it was given: by that time the
    number may be a file which another thread, the store's for one, has opened.
    """

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._is_closed_by_number = type(loop).__module__.startswith("uvloop")

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if not self._is_closed_by_number:
            os.close(self._descriptor)
