"""Streams a directory to a pod as an archive, which the system's tar writes."""

import asyncio
import os
from pathlib import Path
from typing import Protocol

from agentjobs_runtime.git.process import start_child, stop_git
from agentjobs_runtime.safe_text import ellipsize, single_line
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
    tar = await start_child(
        [*_TAR, "-C", str(source), "."],
        environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert tar.stdout is not None
    assert tar.stderr is not None
    # Read meanwhile: it could wait for the space to report another error.
    errors = asyncio.ensure_future(_read_start(tar.stderr))
    try:
        while data := await tar.stdout.read(CHUNK_BYTES):
            await stream.write(data)
        text = await errors
        if await tar.wait() != 0:
            reason = ellipsize(single_line(text.partition("\n")[0]), _MAX_CHARACTERS)
            raise SandboxError(f"the files for the sandbox cannot be read: {reason}")
    finally:
        errors.cancel()
        await stop_git(tar)


async def _read_start(stream: asyncio.StreamReader) -> str:
    """Read to the end, and keep the start."""
    start = b""
    while chunk := await stream.read(CHUNK_BYTES):
        start += chunk[: CHUNK_BYTES - len(start)]
    return start.decode("utf-8", "replace").strip()
