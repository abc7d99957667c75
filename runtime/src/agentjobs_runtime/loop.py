"""Background loops: the protocol, periodic loops, and restarting loops that fail."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentjobs_runtime.free_space import explain_os_error
from agentjobs_runtime.outage_log import Unavailable, outages

_log = logging.getLogger(__name__)
_PAUSE_AFTER_FAULT_SECONDS = 1.0
_CANCEL_AGAIN_SECONDS = 5.0


class Loop(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Runs until cancelled. Cancellation may interrupt it anywhere."""


class PeriodicLoop:
    """Calls `once` at an interval."""

    def __init__(
        self,
        name: str,
        every_seconds: float | Callable[[], float],
        once: Callable[[], Awaitable[None]],
        *,
        first_after_seconds: float = 0,
    ) -> None:
        self.name = name
        self._every_seconds = every_seconds
        self._once = once
        self._next_after_seconds = first_after_seconds

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._next_after_seconds)
            every = self._every_seconds
            self._next_after_seconds = every() if callable(every) else every
            await self._once()


async def run_loops(loops: Sequence[Loop], until: asyncio.Event) -> None:
    """Run all loops concurrently until the event is set."""
    async with asyncio.TaskGroup() as group:
        tasks = {group.create_task(keep_alive(loop.name, loop.run)) for loop in loops}
        await until.wait()
        await end_tasks(tasks)


@contextlib.asynccontextmanager
async def running_loops(loops: Sequence[Loop]) -> AsyncIterator[None]:
    """Run all loops concurrently until the exit."""
    ended = asyncio.Event()
    task = asyncio.create_task(run_loops(loops, ended))
    try:
        yield
    finally:
        ended.set()
        await task


async def keep_alive(name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run until it returns; restart it after an error or while the store is unavailable."""
    while True:
        try:
            return await run()
        except Unavailable as error:
            outages.report(name, error)
        except Exception as error:  # noqa: BLE001 - a loop must survive any error
            if (explanation := explain_os_error(error)) is not None:
                _log.warning("%s failed and is restarted: %s", name, explanation)
            else:
                _log.exception("%s failed and is restarted", name)
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            # The cancellation caused the error.
            return None
        await asyncio.sleep(_PAUSE_AFTER_FAULT_SECONDS)


async def end_tasks(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel repeatedly until all tasks have ended: libraries may swallow a cancellation."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_AGAIN_SECONDS)


async def wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of the coroutines has returned, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
