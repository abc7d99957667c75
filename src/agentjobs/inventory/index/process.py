"""Runs the process that reads a repository, within its time and memory, and hears it out.

Knows how such a process can end; refuses to know what is in a result.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

import msgspec

from agentjobs.git.child import GitChild
from agentjobs.inventory.index.wire import (
    LENGTH,
    MAX_FRAME_BYTES,
    Message,
    MoreDependencies,
    Progress,
    Refused,
    Request,
    Result,
    framed,
)

_COMMAND = "from agentjobs.inventory.index.child import main; main()"
_BUFFER_BYTES = 256 * 1024
_KEPT_WORDS_BYTES = 4_096

_decode = msgspec.msgpack.Decoder(Message).decode


class IndexFailure(Exception):
    """Why a repository could not be indexed, in words for its owner."""


class SpareChild:
    """A process that waits, all imported, for the next request; each serves only one.

    Also lets the last one come to its end: it has answered, and keeps what it found.
    """

    def __init__(self) -> None:
        self._waiting: GitChild | None = None
        self._finishing: tuple[GitChild, asyncio.Task[None]] | None = None

    async def prepare(self) -> None:
        if self._waiting is None:
            self._waiting = await _start()

    async def take(self) -> GitChild:
        await self._finished()
        child, self._waiting = self._waiting, None
        # One that was killed meanwhile is of no use.
        if child is not None and child.returncode is not None:
            await _stop(child)
            child = None
        return child or await _start()

    def let_finish(self, child: GitChild, timeout_seconds: float) -> None:
        self._finishing = child, asyncio.create_task(_finish(child, timeout_seconds))

    async def _finished(self) -> None:
        """What the next index would look for is there, or never will be."""
        if self._finishing is not None:
            await asyncio.wait({self._finishing[1]})
            self._finishing = None

    async def close(self) -> None:
        if self._finishing is not None:
            child, finishing = self._finishing
            finishing.cancel()
            await self._finished()
            # It may have had no time to begin.
            await _stop(child)
        if self._waiting is not None:
            await _stop(self._waiting)
            self._waiting = None


async def run_child(
    request: Request,
    timeout_seconds: float,
    progress: Callable[[int, int], None],
    spare: SpareChild | None = None,
) -> Result:
    """Raises IndexFailure; whatever happens, nothing of it runs on but what `spare` sees to."""
    child = await (spare.take() if spare is not None else _start())
    try:
        async with asyncio.timeout(timeout_seconds):
            result = await _conversation(child, request, progress)
    except TimeoutError:
        await _stop(child)
        raise IndexFailure(
            f"The index took longer than {timeout_seconds:g} seconds;"
            " AGENTJOBS_INDEX_TIMEOUT_SECONDS sets how long it may take."
        ) from None
    except BaseException:
        await _stop(child)
        raise
    if spare is not None:
        spare.let_finish(child, timeout_seconds)
    else:
        await _finish(child, timeout_seconds)
    return result


async def _conversation(
    child: GitChild, request: Request, progress: Callable[[int, int], None]
) -> Result:
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(ConnectionError):
        child.stdin.write(framed(request))
        await child.stdin.drain()
    parts: list[MoreDependencies] = []
    while True:
        message = await _next_message(child.stdout)
        if isinstance(message, Progress):
            progress(message.done, message.total)
        elif isinstance(message, MoreDependencies):
            parts.append(message)
        elif isinstance(message, Result):
            return _whole(parts, message)
        elif isinstance(message, Refused):
            raise IndexFailure(message.reason)
        else:
            raise IndexFailure(await _why_it_ended(child))


def _whole(parts: list[MoreDependencies], last: Result) -> Result:
    if not parts or last.dependencies is None:
        return last
    dependencies = [one for part in parts for one in part.dependencies]
    purls = [purl for part in parts for purl in part.purls]
    return msgspec.structs.replace(
        last,
        dependencies=(*dependencies, *last.dependencies),
        purls=(*purls, *last.purls),
    )


async def _next_message(stream: asyncio.StreamReader) -> Message | None:
    """None when the process is gone."""
    try:
        (length,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise IndexFailure("The index of this repository is too large to be stored.")
        message: Message = _decode(await stream.readexactly(length))
        return message
    except msgspec.MsgspecError as error:
        raise IndexFailure(f"The index gave an answer that makes no sense: {error}.") from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _why_it_ended(child: GitChild) -> str:
    assert child.stderr is not None
    words = (await child.stderr.read(_KEPT_WORDS_BYTES * 16))[-_KEPT_WORDS_BYTES:]
    exit_code = await child.wait()
    if exit_code == -signal.SIGKILL:
        return (
            "The index was killed from outside, most likely because the machine ran out of memory;"
            " AGENTJOBS_INDEX_MEMORY_MIB sets how much it may have."
        )
    if exit_code < 0:
        known = [each.name for each in signal.Signals if each == -exit_code]
        name = known[0] if known else f"signal {-exit_code}"
        return f"The index was ended by {name}: a file broke it."
    lines = words.decode("utf-8", "replace").strip().splitlines()
    return f"The index ended with {exit_code}: {(lines or ['it gave no reason'])[-1][:500]}"


async def _start() -> GitChild:
    return await GitChild.start(
        (sys.executable, "-I", "-c", _COMMAND),
        cwd="/",
        environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        buffer_bytes=_BUFFER_BYTES,
    )


async def _finish(child: GitChild, timeout_seconds: float) -> None:
    """It keeps what it found for the next time, and ends."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await child.wait()
    except TimeoutError:
        pass
    finally:
        await _stop(child)


async def _stop(child: GitChild) -> None:
    # The group is its own: git, which it started, ends with it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()
    child.close()
