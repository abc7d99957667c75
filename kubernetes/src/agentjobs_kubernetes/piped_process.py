"""A program whose streams are sockets of the event loop: asyncio and uvloop treat those alike."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import agentjobs_kubernetes
import agentjobs_runtime
from agentjobs_worker.sandbox.child import Child, wait_despite_cancellation

_MAX_TEXT_BYTES = 64 * 1024


class PipedProcess:
    """Use it with `async with`, at the end of which it is dead.

    `stdin` is a descriptor of the caller's, who needs not give any.
    """

    def __init__(self, command: Sequence[str], *, stdin: int = subprocess.DEVNULL) -> None:
        self.stdout, output = socket.socketpair()
        self._stderr, errors = socket.socketpair()
        try:
            with output, errors:
                # Not by the event loop: uvloop would fork, which copies the service's page tables.
                self._process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=output.fileno(),
                    stderr=errors.fileno(),
                    env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
                    cwd="/",
                    start_new_session=True,
                )
        except OSError:
            self._close_sockets()
            raise
        self._child = Child(self._process.pid)
        for stream in (self.stdout, self._stderr):
            stream.setblocking(False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._child.kill()
        try:
            await wait_despite_cancellation(self._child.ended)
        finally:
            self._process.wait()
            self._child.close()
            self._close_sockets()

    async def wait(self) -> int:
        await asyncio.shield(self._child.ended)
        return self._process.wait()

    async def read_errors(self) -> str:
        """The start of what it writes to stderr, when it has ended."""
        return (await read_start(self._stderr)).decode("utf-8", "replace").strip()

    def _close_sockets(self) -> None:
        self.stdout.close()
        self._stderr.close()


def own_program(module: str, *arguments: str) -> list[str]:
    """A command that runs `main` of a module of ours, which finds the arguments from the second on.

    Not by its path: a program that is imported has its compiled form stored.
    """
    packages = (agentjobs_kubernetes, agentjobs_runtime)
    # In a checkout, each package has a directory of its own.
    directories = os.pathsep.join(str(Path(package.__path__[0]).parent) for package in packages)
    program = (
        "import os, sys; sys.path += sys.argv[1].split(os.pathsep);"
        f" from {module} import main; main()"
    )
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, directories, *arguments]


async def read_start(stream: socket.socket) -> bytes:
    """Read to the end, and keep the start."""
    loop = asyncio.get_running_loop()
    start = b""
    while chunk := await loop.sock_recv(stream, _MAX_TEXT_BYTES):
        start += chunk[: _MAX_TEXT_BYTES - len(start)]
    return start
