"""Runs long work only while its client is connected: servers do not cancel such handlers.

Long polls also end when the key is revoked or the service stops.
"""

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agentjobs.web.api.auth import unauthorized, wait_until_revoked
from agentjobs.web.api.endpoint import Call
from agentjobs.web.api.errors import stopping

T = TypeVar("T")


class Interruption(Enum):
    """Why the work was cancelled."""

    CLIENT = "client"
    KEY = "key"
    SERVICE = "service"


async def long_poll(call: Call, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
    """The result of the work; None if the service stops meanwhile."""
    context = call.context
    if context.stopping.is_set():
        # An immediate response would make a polling client spin.
        raise stopping()
    with context.open_requests.hold(call.caller.key_id):
        revoked = wait_until_revoked(context, call.scope)
        result = await run_while_connected(work(), call.receive, context.stopping, revoked)
    if result is Interruption.KEY:
        raise unauthorized()
    if result is Interruption.CLIENT:
        raise ClientDisconnect
    return None if isinstance(result, Interruption) else result


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
