"""Slots and turns that organizations share."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack

import msgspec
import pytest

from agentjobs_runtime.fair_slots import FairSlots, FairTurns


class Holders:
    """Holds slots until they are let go, in the order in which they got them."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.holding: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def add(self, *names: str) -> None:
        """The first letter of a name is its organization."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
        await settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])
        await settle()

    async def _hold(self, name: str) -> None:
        async with self.slots.hold(name[0]):
            self.holding.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.holding.remove(name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def holders() -> Callable[[int, int], Holders]:
    return lambda count, per_organization: Holders(FairSlots(count, per_organization))


async def test_an_organization_never_has_more_than_its_limit(
    holders: Callable[[int, int], Holders],
) -> None:
    shared = holders(4, 2)
    await shared.add("a1", "a2", "a3", "b1")
    assert shared.holding == ["a1", "a2", "b1"]
    await shared.end("a1")
    assert shared.holding == ["a2", "b1", "a3"]


async def test_a_free_slot_goes_to_the_organization_with_the_fewest(
    holders: Callable[[int, int], Holders],
) -> None:
    shared = holders(3, 2)
    await shared.add("a1", "a2", "b1", "a3", "c1", "b2")
    await shared.end("a1")
    assert shared.holding == ["a2", "b1", "c1"]


async def test_among_equal_organizations_the_one_served_longest_ago_is_next(
    holders: Callable[[int, int], Holders],
) -> None:
    shared = holders(1, 1)
    await shared.add("a1", "a2", "a3", "b1", "b2")
    order = []
    while shared.holding:
        order.append(shared.holding[0])
        await shared.end(order[-1])
    assert order == ["a1", "b1", "a2", "b2", "a3"]


async def test_whoever_stops_waiting_or_is_cancelled_keeps_no_slot(
    holders: Callable[[int, int], Holders],
) -> None:
    shared = holders(1, 1)
    await shared.add("a1", "b1", "c1")
    await shared.cancel("b1")
    await shared.cancel("a1")
    assert shared.holding == ["c1"]


async def test_a_holder_cancelled_in_the_moment_it_is_served_keeps_no_slot(
    holders: Callable[[int, int], Holders],
) -> None:
    shared = holders(1, 1)
    await shared.add("a1", "b1", "c1")
    shared.tasks["a1"].cancel()
    await asyncio.sleep(0)
    shared.tasks["b1"].cancel()
    await settle()
    assert shared.holding == ["c1"]


async def test_numbers_of_slots_are_unique() -> None:
    slots = FairSlots(3, 3)
    async with AsyncExitStack() as stack:
        numbers = [await stack.enter_async_context(slots.hold(name)) for name in "aab"]
    assert sorted(numbers) == [0, 1, 2]


class Work(msgspec.Struct, frozen=True):
    organization_id: str
    name: str


class Due:
    """Work in the order in which it became due; the first letter is its organization."""

    def __init__(self, *names: str) -> None:
        self.work = [Work(name[0], name) for name in names]

    async def claim(self, left_out: Collection[str]) -> Work | None:
        due = [work for work in self.work if work.organization_id not in left_out]
        if due:
            self.work.remove(due[0])
        return due[0] if due else None


async def test_organizations_take_turns_however_much_work_one_of_them_has() -> None:
    due, turns = Due("a1", "a2", "a3", "a4", "b1", "c1", "b2"), FairTurns()
    order = []
    while due.work:
        async with turns.take(due.claim) as work:
            assert work is not None
            order.append(work.name)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_work_of_an_organization_is_done_one_after_the_other() -> None:
    due, turns = Due("a1", "a2", "b1"), FairTurns()
    async with AsyncExitStack() as busy:
        claimed = [await busy.enter_async_context(turns.take(due.claim)) for _ in range(3)]
        assert [work.name if work else None for work in claimed] == ["a1", "b1", None]
    async with turns.take(due.claim) as work:
        assert work == Work("a", "a2")


async def test_a_slot_that_is_held_too_long_is_given_to_another_organization() -> None:
    shared = Holders(FairSlots(1, 1, max_seconds=0.01))
    await shared.add("a1", "a2", "b1")
    assert shared.holding == ["a1"]
    async with asyncio.timeout(10):
        while "b1" not in shared.holding:  # noqa: ASYNC110 - no event tells when a timer ran
            await asyncio.sleep(0.001)
    # Its own organization still waits for the first one.
    assert shared.holding == ["a1", "b1"]
    await shared.end("b1")
    assert shared.holding == ["a1"]
    await shared.end("a1")
    assert shared.holding == ["a2"]
    await shared.end("a2")
