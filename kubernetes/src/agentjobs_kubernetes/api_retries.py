"""Asks the API server again while it is away, overloaded or out of quota."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs_kubernetes.api_errors import (
    API_ERRORS,
    explain,
    is_outage,
    is_refusal,
    is_temporary_refusal,
    read_message,
    retry_after,
)
from agentjobs_worker.sandbox.protocol import SandboxLost

_MIN_DELAY = 0.2
_MAX_DELAY = 15.0
# A single lost request is nothing that people should read about.
_NOTED_ATTEMPT = 3
_MAX_REFUSALS = 4

OnWaiting = Callable[[str], None]
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Backoff:
    """Doubles from one failure to the next, with jitter, so that workers do not ask at once."""

    def __init__(self) -> None:
        self.failures = 0

    def next_delay(self, error: Exception) -> float:
        exponential = min(_MAX_DELAY, _MIN_DELAY * (1 << min(self.failures, 10)))
        self.failures += 1
        jittered = exponential * random.uniform(0.5, 1)  # noqa: S311 - not a secret
        return max(jittered, retry_after(error))


async def call_api(
    request: Callable[[], Awaitable[T]],
    action: str,
    *,
    namespace: str,
    give_up_seconds: float | None,
    on_waiting: OnWaiting | None = None,
) -> T:
    """`action` completes "this worker could not". Raises what `explain` says, or SandboxLost after
    `give_up_seconds` (None: never)."""
    loop, backoff = asyncio.get_running_loop(), Backoff()
    deadline = None if give_up_seconds is None else loop.time() + give_up_seconds
    while True:
        try:
            return await request()
        except API_ERRORS as error:
            may_pass = is_refusal(error) and backoff.failures < _MAX_REFUSALS
            if not is_outage(error) and not may_pass:
                raise explain(error, action, namespace) from error
            delay = backoff.next_delay(error)
            if deadline is not None and loop.time() + delay > deadline:
                raise _gave_up(error, action, give_up_seconds) from error
            _note(error, action, backoff, on_waiting)
        await asyncio.sleep(delay)


def _gave_up(error: Exception, action: str, seconds: float | None) -> SandboxLost:
    return SandboxLost(
        f"this worker could not {action} for {seconds:g} seconds: {describe_outage(error)}"
    )


def _note(error: Exception, action: str, backoff: Backoff, on_waiting: OnWaiting | None) -> None:
    if backoff.failures == _NOTED_ATTEMPT or is_temporary_refusal(error):
        _log.warning("Waiting to %s: %s", action, describe_outage(error))
    if on_waiting and (backoff.failures >= _NOTED_ATTEMPT or is_temporary_refusal(error)):
        on_waiting(f"waiting to {action}: {describe_outage(error)}")


def describe_outage(error: Exception) -> str:
    if is_temporary_refusal(error):
        return read_message(error)
    return f"the Kubernetes API server does not answer ({read_message(error)})"
