"""Streams directories to a pod as one archive, which the system's tar writes."""

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from agentjobs_kubernetes.piped_process import PipedProcess, own_program
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
_LISTER = "agentjobs_kubernetes.lower_files"


class WritableChannel(Protocol):
    async def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


async def upload_tree(
    channel: WritableChannel, sources: Sequence[Path], excluded: Collection[bytes] = ()
) -> None:
    """Send a directory, or a layer's lower and upper directory as one, and end the channel.

    `excluded` are paths in the lower one, with all that is below them. Raises SandboxError, and
    what the channel raises.
    """
    for source in sources:
        _check_directory(source)
    try:
        if len(sources) == 1:
            await _send_archive(channel, ["-C", str(sources[0]), "."])
        else:
            await _send_layer(channel, *sources, excluded=excluded)
    except BaseException:
        channel.close()
        raise
    channel.end()


async def _send_layer(
    channel: WritableChannel, lower: Path, upper: Path, *, excluded: Collection[bytes]
) -> None:
    paths, listing = socket.socketpair()
    with paths, listing, tempfile.TemporaryFile() as deleted:
        deleted.write(b"\0".join(excluded))
        deleted.seek(0)
        lister = PipedProcess(
            own_program(_LISTER, str(lower), str(upper)),
            stdin=deleted.fileno(),
            stdout=listing.fileno(),
        )
        async with lister:
            listing.close()
            operands = ["--null", "--no-recursion", "-C", str(lower), "--files-from=-"]
            operands += ["--recursion", "-C", str(upper), "."]
            await _send_archive(channel, operands, stdin=paths.fileno())
            await _check(lister, await lister.read_errors())


async def _send_archive(
    channel: WritableChannel, operands: Sequence[str], stdin: int = subprocess.DEVNULL
) -> None:
    loop = asyncio.get_running_loop()
    async with PipedProcess([*_TAR, *operands], stdin=stdin) as tar:
        # Read meanwhile: it could wait for the space to report another error.
        errors = asyncio.ensure_future(tar.read_errors())
        try:
            while data := await loop.sock_recv(tar.stdout, CHUNK_BYTES):
                await channel.write(data)
            await _check(tar, await errors)
        finally:
            errors.cancel()
            # Before its socket is closed: the loop would take the next one with its number for it.
            await wait_despite_cancellation(errors)


async def _check(process: PipedProcess, errors: str) -> None:
    if await process.wait() != 0:
        reason = ellipsize(single_line(errors.partition("\n")[0]), _MAX_CHARACTERS)
        raise SandboxError(f"the files for the sandbox cannot be read: {reason}")


def _check_directory(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise SandboxError(f"{error.strerror}: {path}") from error
