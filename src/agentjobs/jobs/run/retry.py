"""A git host or a store that is away for a moment, say for a restart, costs no agent's work."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs.forges.protocol import ForgeError
from agentjobs.store.database import StoreUnavailable
from agentjobs.workspace.errors import RepoUnavailable

T = TypeVar("T")

_PAUSES_SECONDS = (1, 2, 4, 8, 15, 30)
_STORE_PAUSE_SECONDS = 0.5


async def patiently(step: Callable[[], Awaitable[T]], say: Callable[[str], None]) -> T:
    for pause in _PAUSES_SECONDS:
        try:
            return await step()
        except (RepoUnavailable, ForgeError) as error:
            if not error.may_pass:
                raise
            say(f"{error}; trying again in {pause} s")
            await asyncio.sleep(pause)
    return await step()


async def as_long_as_leased(step: Callable[[], Awaitable[T]], lease_seconds: float) -> T:
    """A write to the store, repeated; whoever waits longer than a lease has lost the job."""
    give_up = time.monotonic() + lease_seconds
    while True:
        try:
            return await step()
        except StoreUnavailable:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(_STORE_PAUSE_SECONDS)
