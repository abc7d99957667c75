"""Runs long work only while its client is connected: servers do not cancel such handlers."""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class Interruption(Enum):
    """Why the work was cancelled."""

    CLIENT = "client"
    KEY = "key"
    SERVICE = "service"


async def run_while_connected(
    work: Coroutine[Any, Any, T],
    receive: Receive,
    stopping: asyncio.Event | None = None,
    revoked: Coroutine[Any, Any, None] | None = None,
) -> T | Interruption:
    """The work's result, or why it was cancelled: the client left, its key was revoked, or the
    service is stopping.

    `revoked` returns when the client is no longer authorized. Work without it and `stopping` ends
    by itself in these cases.
    """
    task = asyncio.create_task(work)
    watchers: dict[Interruption, asyncio.Task[Any]] = {
        Interruption.CLIENT: asyncio.create_task(_disconnect(receive))
    }
    if revoked is not None:
        watchers[Interruption.KEY] = asyncio.create_task(revoked)
    if stopping is not None:
        watchers[Interruption.SERVICE] = asyncio.create_task(stopping.wait())
    waiting = {task, *watchers.values()}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        reason, watcher = next(watcher for watcher in watchers.items() if watcher[1].done())
        watcher.result()
        return reason
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
