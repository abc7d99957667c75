"""The JSON result of an agent: its schema as declared, and its check, within limits."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
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
MAX_SCHEMA_BYTES = 64 * 1024


def load_schema(declared: str | Mapping[str, Any]) -> dict[str, Any] | None:
    """None for an empty string. Raises ValueError; the reason continues the field's name."""
    # An empty table is a schema that any JSON fits.
    if declared == "":
        return None
    text = _read_file(declared) if isinstance(declared, str) else msgspec.json.encode(declared)
    if len(text) > MAX_SCHEMA_BYTES:
        raise ValueError(f"must have at most {MAX_SCHEMA_BYTES // 1024} KiB")
    try:
        schema = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"must be a JSON object: {error}") from None
    # Takes long to import, and few deployments need it.
    from agentjobs_worker.agents.result_check import check_schema  # noqa: PLC0415 - see above

    check_schema(schema)
    return schema


def _read_file(path: str) -> bytes:
    if not path.startswith("/"):
        raise ValueError("must be a table, or the absolute path of a file")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


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
