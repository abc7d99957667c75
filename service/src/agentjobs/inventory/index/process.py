"""Runs the index process within its time limit and receives its messages.

Knows how the process can end, but not what a result contains.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

import msgspec

from agentjobs.inventory.index.wire import (
    LENGTH,
    MAX_FRAME_BYTES,
    DependencyBatch,
    Failed,
    Message,
    Progress,
    Request,
    Result,
    encode_frame,
)
from agentjobs_runtime.git.child import GitChild

_COMMAND = "from agentjobs.inventory.index.child import main; main()"
_BUFFER_BYTES = 256 * 1024
_STDERR_BYTES = 4_096

_decode = msgspec.msgpack.Decoder(Message).decode


class IndexFailure(Exception):
    """A repository could not be indexed; the message is shown to its owner."""


async def run_child(
    request: Request, timeout_seconds: float, progress: Callable[[int, int], None]
) -> Result:
    """Raises IndexFailure. No process outlives the call."""
    child = await _start()
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _exchange(child, request, progress)
    except TimeoutError:
        raise IndexFailure(
            f"The index took longer than {timeout_seconds:g} seconds;"
            " AGENTJOBS_INDEX_TIMEOUT_SECONDS sets the limit."
        ) from None
    finally:
        await _stop(child)


async def _exchange(
    child: GitChild, request: Request, progress: Callable[[int, int], None]
) -> Result:
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(ConnectionError):
        child.stdin.write(encode_frame(request))
        await child.stdin.drain()
    batches: list[DependencyBatch] = []
    while True:
        message = await _next_message(child.stdout)
        if isinstance(message, Progress):
            progress(message.done, message.total)
        elif isinstance(message, DependencyBatch):
            batches.append(message)
        elif isinstance(message, Result):
            return _join_batches(batches, message)
        elif isinstance(message, Failed):
            raise IndexFailure(message.reason)
        else:
            raise IndexFailure(await _exit_reason(child))


def _join_batches(batches: list[DependencyBatch], last: Result) -> Result:
    if not batches or last.dependencies is None:
        return last
    sent = [dependency for batch in batches for dependency in batch.dependencies]
    return msgspec.structs.replace(last, dependencies=(*sent, *last.dependencies))


async def _next_message(stream: asyncio.StreamReader) -> Message | None:
    """None once the process has ended."""
    try:
        (length,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise IndexFailure("The index of this repository is too large to store.")
        message: Message = _decode(await stream.readexactly(length))
        return message
    except msgspec.MsgspecError as error:
        raise IndexFailure(f"The index process sent an invalid message: {error}.") from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _exit_reason(child: GitChild) -> str:
    assert child.stderr is not None
    stderr = (await child.stderr.read(_STDERR_BYTES * 16))[-_STDERR_BYTES:]
    exit_code = await child.wait()
    if exit_code == -signal.SIGKILL:
        return (
            "The index process was killed, most likely because the machine ran out of memory;"
            " AGENTJOBS_INDEX_MEMORY_MIB limits its memory."
        )
    if exit_code < 0:
        names = [known.name for known in signal.Signals if known == -exit_code]
        name = names[0] if names else f"signal {-exit_code}"
        return f"The index process crashed with {name} while reading a file."
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f"The index process exited with {exit_code}: {(lines or ['no reason given'])[-1][:500]}"


async def _start() -> GitChild:
    return await GitChild.start(
        (sys.executable, "-I", "-c", _COMMAND),
        cwd="/",
        environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        buffer_bytes=_BUFFER_BYTES,
    )


async def _stop(child: GitChild) -> None:
    # The process leads its own group, so git processes that it started are killed too.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()
    child.close()
