"""Calls platforms and trackers while a page loads, within time limits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from agentjobs.connections.adapters import Platforms
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.problems import Problem

MAX_SECONDS = 10.0
# Shorter, so that the error of the last attempt is shown before the page times out.
_RETRY_SECONDS = 7.0


def require_platforms(request: PageRequest) -> Platforms:
    if request.context.platforms is None:
        raise Problem(
            "unavailable", "This service cannot reach any platform. Contact the operator."
        )
    return request.context.platforms


def page_retry_budget() -> RetryBudget:
    return RetryBudget(_RETRY_SECONDS)


@contextlib.asynccontextmanager
async def page_timeout(name: str, advice: str) -> AsyncIterator[None]:
    """Raises Problem when the time is up; `advice` is the rest of its message."""
    try:
        async with asyncio.timeout(MAX_SECONDS):
            yield
    except TimeoutError:
        message = f"{name} did not respond within {MAX_SECONDS:.0f} seconds. {advice}"
        raise Problem("forge_unavailable", message) from None


@contextlib.asynccontextmanager
async def open_session(request: PageRequest) -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP session with the operator's network settings."""
    allowed = AllowList.parse(request.settings.egress_allow)
    async with new_session(allowed, request.settings.ca_file) as session:
        yield session
