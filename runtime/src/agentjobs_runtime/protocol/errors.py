"""Errors of calls to the service, and the retries that they allow."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentjobs_runtime.outage_log import Unavailable

T = TypeVar("T")

_PAUSE_SECONDS = 0.5


class ServiceError(Exception):
    """The service failed or refused a call."""


class ServiceUnavailable(ServiceError, Unavailable):
    """The service or its database cannot be reached; the same call may succeed later."""


class ClaimLost(Exception):
    """The claim ended or belongs to another process; its former holder must not write."""

    def __str__(self) -> str:
        return "the claim ended, or another process has it"


async def retry_within_lease(step: Callable[[], Awaitable[T]], lease_seconds: float) -> T:
    """Retry a call for as long as a lease lasts; after that the claim is lost."""
    give_up = time.monotonic() + lease_seconds
    while True:
        try:
            return await step()
        except ServiceUnavailable:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
