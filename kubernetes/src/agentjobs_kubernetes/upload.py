"""Streams a directory to a pod as an archive, which the system's tar writes."""

import asyncio
import os
from pathlib import Path
from typing import Protocol

from agentjobs_kubernetes.piped_process import PipedProcess
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import SandboxError

CHUNK_BYTES = 64 * 1024
_TAR = (
    *("tar", "--create", "--file=-", "--format=gnu", "--hard-dereference"),
    # The pod must not see the names of the worker's users.
    *("--numeric-owner", "--owner=0", "--group=0"),
    f"--blocking-factor={CHUNK_BYTES // 512}",
)
_MAX_CHARACTERS = 300


class WritableStream(Protocol):
    async def write(self, data: bytes) -> None: ...


async def upload_tree(stream: WritableStream, source: Path) -> None:
    """Send a directory. Raises SandboxError, and what the stream raises."""
    try:
        os.close(os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise SandboxError(f"{error.strerror}: {source}") from error
    loop = asyncio.get_running_loop()
    async with PipedProcess([*_TAR, "-C", str(source), "."]) as tar:
        # Read meanwhile: it could wait for the space to report another error.
        errors = asyncio.ensure_future(tar.read_errors())
        try:
            while data := await loop.sock_recv(tar.stdout, CHUNK_BYTES):
                await stream.write(data)
            text = await errors
            if await tar.wait() != 0:
                reason = ellipsize(single_line(text.partition("\n")[0]), _MAX_CHARACTERS)
                raise SandboxError(f"the files for the sandbox cannot be read: {reason}")
        finally:
            errors.cancel()
            # Before its socket is closed: the loop would take the next one with its number for it.
            await wait_despite_cancellation(errors)
