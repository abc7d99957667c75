"""Work under a lease: it outlasts a short outage of the store, and never its lease."""

import asyncio

import pytest

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.leases import run_renewing
from agentjobs_runtime.protocol.errors import ClaimLost


async def test_work_continues_while_its_lease_outlasts_an_outage() -> None:
    attempts = 0
    is_over = asyncio.Event()

    async def renew() -> bool:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise StoreUnavailable("the database is away")
        is_over.set()
        return True

    assert await run_renewing(is_over.wait(), renew, 0.001, lease_ms=60_000)


async def test_work_stops_when_its_lease_ends_in_an_outage() -> None:
    async def renew() -> bool:
        raise StoreUnavailable("the database is away")

    with pytest.raises(ClaimLost):
        async with asyncio.timeout(10):
            await run_renewing(asyncio.Event().wait(), renew, 0.001, lease_ms=20)


async def test_work_stops_when_its_lease_ends_while_the_store_hangs() -> None:
    async def renew() -> bool:
        return await asyncio.Event().wait()

    with pytest.raises(ClaimLost):
        async with asyncio.timeout(10):
            await run_renewing(asyncio.Event().wait(), renew, 0.001, lease_ms=20)


async def test_a_timeout_of_the_work_is_an_error_of_the_work() -> None:
    async def renew() -> bool:
        return True

    async def fail() -> None:
        raise TimeoutError("a platform did not respond")

    with pytest.raises(TimeoutError):
        await run_renewing(fail(), renew, 60, lease_ms=60_000)
