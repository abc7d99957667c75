"""Reads git's output up to a limit of bytes and seconds."""

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import Mapping
from pathlib import Path

from agentjobs_runtime.git.process import GitError, open_git, stop_git

_CHUNK_BYTES = 64 * 1024
_SECONDS = 20.0


async def read_up_to(
    max_bytes: int,
    git_dir: Path,
    *arguments: str,
    seconds: float = _SECONDS,
    configuration: Mapping[str, str] | None = None,
) -> tuple[bytes, bool]:
    """The output, and whether it is complete; git is stopped at either limit."""
    process = await open_git(
        *arguments, git_dir=git_dir, configuration=configuration, stdin=DEVNULL, stderr=DEVNULL
    )
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(output) <= max_bytes and (chunk := await process.stdout.read(_CHUNK_BYTES)):
                output += chunk
            if len(output) > max_bytes:
                return bytes(output[:max_bytes]), False
            if exit_code := await process.wait():
                raise GitError(arguments, exit_code, "")
            return bytes(output), True
    except TimeoutError:
        return bytes(output), False
    finally:
        await stop_git(process)
