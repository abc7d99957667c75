"""Retries for platforms that are briefly unreachable, such as during a restart.

A job waits in the queue for those that stay away for longer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.mirrors.errors import RepoUnavailable

T = TypeVar("T")

BACKOFF_SECONDS = (1, 2, 4)


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
