"""Runs a command with limits on untrusted data, which may take it long or much memory."""

import asyncio
import os
from collections.abc import Sequence

from agentjobs_runtime.git.limits import lower_priority
from agentjobs_runtime.git.process import start_child, stop_git

_STDERR_BYTES = 4 * 1024


async def run_child(
    command: Sequence[str], request: bytes, timeout_seconds: float | None = None
) -> tuple[int, bytes, str]:
    """The exit code, the response on stdout, and the end of stderr. Raises TimeoutError."""
    child = await start_child(
        command, environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    )
    lower_priority(child.pid)
    try:
        async with asyncio.timeout(timeout_seconds):
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdin.write(request)
            child.stdin.close()
            response, stderr = await asyncio.gather(child.stdout.read(), child.stderr.read())
            exit_code = await child.wait()
    finally:
        await stop_git(child)
    return exit_code, response, stderr[-_STDERR_BYTES:].decode("utf-8", "replace")
