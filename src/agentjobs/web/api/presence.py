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
    SERVICE = "service"


async def while_present(
    work: Coroutine[Any, Any, T], receive: Receive, stopping: asyncio.Event
) -> T | Gone:
    """The work's result, or who left first: the client, or this service by shutting down."""
    task = asyncio.create_task(work)
    client = asyncio.create_task(_disconnect(receive))
    service = asyncio.create_task(stopping.wait())
    waiting: set[asyncio.Task[Any]] = {task, client, service}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return Gone.CLIENT if client.done() else Gone.SERVICE
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
