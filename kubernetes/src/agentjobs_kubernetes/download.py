"""Takes over what an agent changed in its pod, whose every byte may be hostile."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

import agentjobs_kubernetes
import agentjobs_runtime
from agentjobs_kubernetes.apply_changes import CPU_SECONDS, ChangesRequest, ChangesResponse
from agentjobs_runtime.git.child import GitChild
from agentjobs_runtime.git.process import start_child, stop_git
from agentjobs_runtime.sandboxes.limits import FILE_BYTES, Limits
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import SandboxError, UnusableResult

# Not by its path: a program that is imported has its compiled form stored.
_PROGRAM = (
    "import os, sys; sys.path += sys.argv[1].split(os.pathsep);"
    " from agentjobs_kubernetes.apply_changes import main; main()"
)


class ReadableStream(Protocol):
    async def read(self) -> bytes:
        """b"" at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """0 means no limit. `text` is what `max_bytes` stands for in a report."""

    max_bytes: int
    max_file_bytes: int
    text: str

    @classmethod
    def of(cls, limits: Limits, received_bytes: int = 0) -> "TransferLimits":
        """The rest of a sandbox's limits after other downloads."""
        # 0 would be no limit.
        left = max(1, limits.workspace_bytes - received_bytes) if limits.workspace_bytes else 0
        return cls(max_bytes=left, max_file_bytes=limits.file_bytes, text=limits.workspace_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """`exceeded` is the limit as text, if there was more than it allows."""

    entries: int = 0
    used_bytes: int = 0
    exceeded: str | None = None


async def download_changes(
    changes: ReadableStream,
    target: Path,
    limits: TransferLimits,
    *,
    start: bytes = b"",
    lower: Path | None = None,
) -> Received:
    """Delete from the directory what the pod has deleted, and apply its other changes.

    `start` was read from the stream already.
    If `target` is a layer over `lower`, what was deleted of that is remembered beside `target`.
    Another call with the same changes is harmless. Raises UnusableResult, SandboxError, and what
    the stream raises.
    """
    process = await _start(_request(target, lower, limits))
    try:
        assert process.stdin is not None
        response = await _response(process, _feed(start, changes, process.stdin))
    finally:
        await stop_git(process)
    return _received(response, target, limits)


def deleted_record(upper: Path) -> Path:
    """The file with the paths of the lower directory that were deleted, separated by NUL."""
    return upper.with_name(f"{upper.name}.deleted")


def _request(target: Path, lower: Path | None, limits: TransferLimits) -> str:
    request = ChangesRequest(
        target=str(target),
        lower="" if lower is None else str(lower),
        deleted="" if lower is None else str(deleted_record(target)),
        max_bytes=limits.max_bytes,
        max_file_bytes=limits.max_file_bytes,
        entry_bytes=FILE_BYTES,
    )
    return json.dumps(request)


async def _start(request: str) -> GitChild:
    # In a checkout, each package has a directory of its own.
    packages = (agentjobs_kubernetes, agentjobs_runtime)
    directories = os.pathsep.join(str(Path(package.__path__[0]).parent) for package in packages)
    python = (sys.executable, "-I", "-S", "-X", "utf8")
    return await start_child(
        [*python, "-c", _PROGRAM, directories, request], environment={"LC_ALL": "C.UTF-8"}
    )


async def _feed(start: bytes, changes: ReadableStream, to: asyncio.StreamWriter) -> None:
    """When the process ends early, the rest is not read."""
    data = start or await changes.read()
    while data:
        try:
            to.write(data)
            await to.drain()
        except (BrokenPipeError, ConnectionResetError):
            return
        data = await changes.read()
    to.close()


async def _response(process: GitChild, feed: Coroutine[Any, Any, None]) -> ChangesResponse:
    """The process may end before everything was sent, and the stream may fail before it ends."""
    feeding = asyncio.create_task(feed)
    reading = asyncio.create_task(_read(process))
    try:
        await asyncio.wait((reading, feeding), return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()
        output, errors = await reading
        exit_code = await process.wait()
    finally:
        for task in (feeding, reading):
            task.cancel()
        await wait_despite_cancellation(feeding, reading)
    if exit_code == -signal.SIGXCPU:
        raise UnusableResult(f"reading it takes more than {CPU_SECONDS} seconds of CPU time")
    if exit_code != 0:
        raise SandboxError(
            f"the process that receives the agent's files ended with {exit_code}: {errors[-500:]}"
        )
    return msgspec.json.decode(output, type=ChangesResponse)


async def _read(process: GitChild) -> tuple[bytes, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    response, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
    return response, errors.decode("utf-8", "replace").strip()


def _received(response: ChangesResponse, target: Path, limits: TransferLimits) -> Received:
    if "refused" in response:
        raise UnusableResult(response["refused"])
    if "error" in response:
        cause = OSError(response["error_number"], response["error"])
        raise SandboxError(f"{response['error']}: {target}") from cause
    if "is_too_large" in response:
        return Received(exceeded=limits.text)
    return Received(entries=response["entries"], used_bytes=response["used_bytes"])
