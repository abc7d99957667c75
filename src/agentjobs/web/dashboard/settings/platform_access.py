"""Asking platforms and trackers while somebody waits for a page: no longer than they would."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from agentjobs.connections.adapters import Platforms
from agentjobs.forges.http.client import RetryBudget
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.outbound.guard.sessions import new_session
from agentjobs.problems import Problem
from agentjobs.web.dashboard.request_context import PageRequest

MOST_SECONDS = 10.0
# So that the last word of a platform in trouble still arrives.
_PATIENCE_SECONDS = 7.0


def platforms_of(request: PageRequest) -> Platforms:
    if request.context.platforms is None:
        raise Problem("unavailable", "This service reaches no platform; tell the operator.")
    return request.context.platforms


def persons_patience() -> RetryBudget:
    return RetryBudget(_PATIENCE_SECONDS)


@contextlib.asynccontextmanager
async def in_time(name: str, otherwise: str) -> AsyncIterator[None]:
    """Raises Problem when it takes longer; `otherwise` says what that means."""
    try:
        async with asyncio.timeout(MOST_SECONDS):
            yield
    except TimeoutError:
        message = f"{name} did not answer within {MOST_SECONDS:.0f} seconds. {otherwise}"
        raise Problem("forge_unavailable", message) from None


@contextlib.asynccontextmanager
async def session_of(request: PageRequest) -> AsyncIterator[aiohttp.ClientSession]:
    """By the operator's settings, as all that this service asks of others."""
    allowed = AllowList.parse(request.settings.egress_allow)
    async with new_session(allowed, request.settings.ca_file) as session:
        yield session
