"""A git host that is away for a moment, say for a restart, costs no agent's work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs.workspace.errors import RepoUnavailable

T = TypeVar("T")

_PAUSES_SECONDS = (1, 2, 4, 8, 15, 30)


async def patiently(step: Callable[[], Awaitable[T]], say: Callable[[str], None]) -> T:
    for pause in _PAUSES_SECONDS:
        try:
            return await step()
        except RepoUnavailable as error:
            if not error.may_pass:
                raise
            say(f"{error}; trying again in {pause} s")
            await asyncio.sleep(pause)
    return await step()
