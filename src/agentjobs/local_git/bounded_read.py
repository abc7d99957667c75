"""What git says, up to so many bytes and so many seconds, and no further."""

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import Mapping
from pathlib import Path

from agentjobs.git.process import GitError, open_git, stop_git

_PIECE_BYTES = 64 * 1024
_SECONDS = 20.0


async def read_up_to(
    max_bytes: int,
    git_dir: Path,
    *arguments: str,
    seconds: float = _SECONDS,
    configuration: Mapping[str, str] | None = None,
) -> tuple[bytes, bool]:
    """The output, and whether that is all of it; git is stopped once it said or took enough."""
    process = await open_git(
        *arguments, git_dir=git_dir, configuration=configuration, stdin=DEVNULL, stderr=DEVNULL
    )
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(output) <= max_bytes and (piece := await process.stdout.read(_PIECE_BYTES)):
                output += piece
            if len(output) > max_bytes:
                return bytes(output[:max_bytes]), False
            if exit_code := await process.wait():
                raise GitError(arguments, exit_code, "")
            return bytes(output), True
    except TimeoutError:
        return bytes(output), False
    finally:
        await stop_git(process)
