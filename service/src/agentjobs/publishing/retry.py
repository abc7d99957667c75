"""Retries for platforms and databases that are briefly unreachable, such as during a restart.

A job waits in the queue for those that stay away for longer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.mirrors.errors import RepoUnavailable

T = TypeVar("T")

BACKOFF_SECONDS = (1, 2, 4)
_STORE_PAUSE_SECONDS = 0.5


async def retry_while_unreachable(
    step: Callable[[], Awaitable[T]], on_note: Callable[[str], None]
) -> T:
    for pause in BACKOFF_SECONDS:
        try:
            return await step()
        except (RepoUnavailable, PlatformError) as error:
            if not error.is_temporary:
                raise
            on_note(f"{error}; trying again in {pause} s")
            await asyncio.sleep(pause)
    return await step()


async def retry_within_lease(step: Callable[[], Awaitable[T]], lease_seconds: float) -> T:
    """Retry a write to the database for as long as a lease lasts; after that the claim is lost."""
    give_up = time.monotonic() + lease_seconds
    while True:
        try:
            return await step()
        except StoreUnavailable:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(_STORE_PAUSE_SECONDS)
