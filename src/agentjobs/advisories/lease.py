"""Keeps a claim while the work goes on: due times are queue, lease and backoff at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LEASE_SECONDS = 60
_RENEW_SECONDS = 15.0


class ClaimLost(Exception):
    """Somebody else has it now, because we were not heard of for too long."""


async def while_held(work: Coroutine[Any, Any, T], renew: Callable[[], Awaitable[bool]]) -> T:
    """The result of the work, which is given up if the claim cannot be renewed."""
    working = asyncio.create_task(work)
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=_RENEW_SECONDS)
            if not working.done() and not await renew():
                raise ClaimLost
        return await working
    finally:
        working.cancel()
