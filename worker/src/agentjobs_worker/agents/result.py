"""Checks the JSON result of an agent against its schema, within limits."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from agentjobs_runtime.git.child import GitChild
from agentjobs_runtime.git.limits import lower_priority
from agentjobs_runtime.git.process import stop_git

_COMMAND = "from agentjobs_worker.agents.result_check import main; main()"
_CPU_SECONDS = 10
_MEMORY_BYTES = 512 * 1024**2
_BUFFER_BYTES = 64 * 1024
_STDERR_BYTES = 4 * 1024


async def result_faults(schema: Mapping[str, Any], content: bytes) -> list[str]:
    """Why `content` is not JSON that fits the schema; empty if it is."""
    limits = (f"--data={_MEMORY_BYTES}:", f"--cpu={_CPU_SECONDS}:", "--core=0:")
    child = await GitChild.start(
        ("prlimit", *limits, sys.executable, "-I", "-c", _COMMAND),
        cwd="/",
        environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        buffer_bytes=_BUFFER_BYTES,
    )
    lower_priority(child.pid)
    request = msgspec.msgpack.encode({"schema": schema, "content": content})
    try:
        # Only its CPU time is limited: on a busy machine it may wait for minutes to get any.
        return await _exchange(child, request)
    finally:
        await stop_git(child)


async def _exchange(child: GitChild, request: bytes) -> list[str]:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdin.write(request)
    child.stdin.close()
    response, stderr = await asyncio.gather(child.stdout.read(), child.stderr.read())
    exit_code = await child.wait()
    if exit_code == 0:
        return msgspec.msgpack.decode(response, type=list[str])
    if exit_code == -signal.SIGXCPU:
        return [f"checking it takes more than {_CPU_SECONDS} seconds of CPU time"]
    if b"MemoryError" in stderr:
        return [f"checking it takes more than {_MEMORY_BYTES // 1024**2} MiB of memory"]
    text = stderr[-_STDERR_BYTES:].decode("utf-8", "replace")
    raise RuntimeError(f"the process that checks results failed: {text}")
