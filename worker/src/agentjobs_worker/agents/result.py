"""The JSON result of an agent: its schema as declared, and its check, within limits."""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentjobs_runtime.git.limited_child import run_child

_COMMAND = "from agentjobs_worker.agents.result_check import main; main()"
_CPU_SECONDS = 10
_MEMORY_BYTES = 512 * 1024**2
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
    # Only its CPU time is limited: on a busy machine it may wait for minutes to get any.
    exit_code, response, stderr = await run_child(
        ("prlimit", *limits, sys.executable, "-I", "-c", _COMMAND),
        msgspec.msgpack.encode({"schema": schema, "content": content}),
    )
    if exit_code == 0:
        return msgspec.msgpack.decode(response, type=list[str])
    if exit_code == -signal.SIGXCPU:
        return [f"checking it takes more than {_CPU_SECONDS} seconds of CPU time"]
    if "MemoryError" in stderr:
        return [f"checking it takes more than {_MEMORY_BYTES // 1024**2} MiB of memory"]
    raise RuntimeError(f"the process that checks results failed: {stderr}")
