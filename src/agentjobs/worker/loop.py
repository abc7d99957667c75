"""Background roles: each a loop of its own, kept alive until told to stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentjobs.store.database import StoreUnavailable

_log = logging.getLogger(__name__)
_PAUSE_AFTER_FAULT_SECONDS = 1.0


class Loop(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self, stopping: asyncio.Event) -> None:
        """Returns soon after `stopping` is set, its work put down in order."""


class PeriodicLoop:
    """Calls `once` every so often; for roles that need nothing more."""

    def __init__(
        self, name: str, every_seconds: float, once: Callable[[], Awaitable[None]]
    ) -> None:
        self.name = name
        self._every_seconds = every_seconds
        self._once = once

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await pause(stopping, self._every_seconds)
            if not stopping.is_set():
                await self._once()


async def pause(stopping: asyncio.Event, seconds: float) -> None:
    """Waits, but no longer than until the stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Returns when one of them has; the others are given up."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def run_loops(loops: Sequence[Loop], stopping: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(_keep_alive(loop, stopping), name=loop.name)


async def _keep_alive(loop: Loop, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        try:
            await loop.run(stopping)
        except StoreUnavailable as error:
            _log.warning("%s waits for the store: %s", loop.name, error)
        except Exception:  # noqa: BLE001 - a role that failed once must not stay away
            _log.exception("%s failed and is started again", loop.name)
        await pause(stopping, _PAUSE_AFTER_FAULT_SECONDS)
