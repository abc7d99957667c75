"""Work that lasts while somebody waits for it: no server cancels a handler whose client left."""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class Gone(Enum):
    """Why the work was given up."""

    CLIENT = "client"
    KEY = "key"
    SERVICE = "service"


async def while_present(
    work: Coroutine[Any, Any, T],
    receive: Receive,
    stopping: asyncio.Event,
    refused: Coroutine[Any, Any, None],
) -> T | Gone:
    """The work's result, or what went first: the client, its key, or this service by stopping.

    `refused` ends when the client may not wait for this any more.
    """
    task = asyncio.create_task(work)
    watchers: dict[Gone, asyncio.Task[Any]] = {
        Gone.CLIENT: asyncio.create_task(_disconnect(receive)),
        Gone.KEY: asyncio.create_task(refused),
        Gone.SERVICE: asyncio.create_task(stopping.wait()),
    }
    waiting = {task, *watchers.values()}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        reason, watcher = next(each for each in watchers.items() if each[1].done())
        watcher.result()
        return reason
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
