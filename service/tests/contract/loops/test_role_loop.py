"""A role is performed by one process of the fleet at a time, once per interval."""

import asyncio

import pytest

from agentjobs.loops.role_loop import RoleLoop
from agentjobs.store.database import Database


class Work:
    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1
        self.started.set()
        await self.may_end.wait()


async def test_two_processes_perform_a_role_once(database: Database) -> None:
    work = Work()
    first, second = (RoleLoop(database, "test", 600, work) for _ in range(2))
    running = asyncio.create_task(first.run_if_due())
    await work.started.wait()
    assert not await second.run_if_due()
    work.may_end.set()
    assert await running
    # Not before the next interval.
    assert not await second.run_if_due()
    assert not await first.run_if_due()
    assert work.calls == 1


async def test_a_process_that_starts_may_perform_it_before_the_interval(
    database: Database,
) -> None:
    work = Work()
    work.may_end.set()
    assert await RoleLoop(database, "test", 600, work).run_if_due()
    restarted = RoleLoop(database, "test", 600, work, at_start=True)
    assert await restarted.run_if_due()
    assert not await restarted.run_if_due()


async def test_a_process_that_stops_leaves_the_role_to_another(database: Database) -> None:
    work = Work()
    running = asyncio.create_task(RoleLoop(database, "test", 600, work).run_if_due())
    await work.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    work.may_end.set()
    assert await RoleLoop(database, "test", 600, work).run_if_due()


async def test_a_role_that_fails_is_repeated_at_the_next_interval(database: Database) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    loop = RoleLoop(database, "test", 600, fail)
    with pytest.raises(ValueError, match="a bug"):
        await loop.run_if_due()
    assert not await loop.run_if_due()


async def test_a_process_that_is_not_able_leaves_the_role_to_others(database: Database) -> None:
    work, requested = Work(), asyncio.Event()

    def is_able() -> bool:
        requested.set()
        return False

    loop = asyncio.create_task(RoleLoop(database, "test", 600, work, is_able=is_able).run())
    await requested.wait()
    loop.cancel()
    work.may_end.set()
    assert await RoleLoop(database, "test", 600, work).run_if_due()
    assert work.calls == 1
