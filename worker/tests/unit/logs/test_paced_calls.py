"""Calls are made in their order, in a turn of the event loop each, and do not pile up."""

import asyncio
from functools import partial

from agentjobs_worker.logs import paced_calls
from agentjobs_worker.logs.paced_calls import PacedCalls


async def test_the_first_call_is_made_at_once_and_the_others_in_a_turn_each() -> None:
    calls, made = PacedCalls(), list[int]()
    calls.add(*(partial(made.append, number) for number in range(3)))
    calls.add(partial(made.append, 3))
    lengths = [len(made)]
    while len(made) < 4:
        await asyncio.sleep(0)
        lengths.append(len(made))
    assert lengths == [1, 2, 3, 4]
    assert made == [0, 1, 2, 3]
    calls.add(partial(made.append, 4))
    assert made[-1] == 4


async def test_a_call_may_add_another() -> None:
    calls, made = PacedCalls(), list[str]()
    calls.add(lambda: calls.add(partial(made.append, "last")), partial(made.append, "first"))
    await calls.wait_until_done()
    assert made == ["first", "last"]


async def test_more_calls_than_may_wait_are_made_at_once(monkeypatch) -> None:
    monkeypatch.setattr(paced_calls, "_MAX_WAITING", 2)
    calls, made = PacedCalls(), list[int]()
    for number in range(10):
        calls.add(partial(made.append, number), partial(made.append, number))
    assert len(made) == 18
    await calls.wait_until_done()
    assert made == sorted(made)
    assert len(made) == 20
