"""Failures for lack of processes or memory, which are the worker's and not the job's."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs_runtime.protocol.disk_space import causes, mentions_lack_of_space
from agentjobs_runtime.protocol.shortage import is_machine_exhausted
from agentjobs_worker.sandbox.protocol import HostExhausted

T = TypeVar("T")

_PAUSE_SECONDS = 5.0
# How long an agent's change waits for what its commit and checks need.
_MAX_WAIT_SECONDS = 600.0


def is_host_exhausted(error: BaseException) -> bool:
    """Whether the worker's machine had no process, memory or descriptor left."""
    is_of_sandbox = any(isinstance(cause, HostExhausted) for cause in causes(error))
    return is_of_sandbox or is_machine_exhausted(error)


async def retry_while_exhausted(
    step: Callable[[], Awaitable[T]], on_note: Callable[[str], None]
) -> T:
    """Repeat a step until the machine has what it needs, so that the agent's work is not done
    again."""
    give_up_at = time.monotonic() + _MAX_WAIT_SECONDS
    while True:
        try:
            return await step()
        except Exception as error:
            is_exhausted = mentions_lack_of_space(error) or is_host_exhausted(error)
            if not is_exhausted or time.monotonic() > give_up_at:
                raise
            on_note(f"the change waits for the machine of the worker: {error}")
            await asyncio.sleep(_PAUSE_SECONDS)
