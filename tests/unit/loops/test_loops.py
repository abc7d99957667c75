"""Loops end when they are told to, whatever the one cancellation meets."""

import asyncio
import logging

import pytest

from agentjobs.app.signals import log_tasks
from agentjobs.loops import loop


class FailsWhenStopped:
    """Its tidying up raises, and that hides the cancellation."""

    name = "fails"

    def __init__(self) -> None:
        self.starts = 0
        self.began = asyncio.Event()

    async def run(self) -> None:
        self.starts += 1
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the pipe is closed")


class LosesACancellation:
    name = "loses"

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()


async def stopped(one: FailsWhenStopped | LosesACancellation) -> None:
    until = asyncio.Event()
    running = asyncio.create_task(loop.run_loops([one], until))
    await one.began.wait()
    until.set()
    await asyncio.wait_for(running, 30)


def test_a_loop_that_fails_while_it_is_stopped_is_not_started_again() -> None:
    failing = FailsWhenStopped()
    asyncio.run(stopped(failing))
    assert failing.starts == 1


def test_a_loop_that_lost_its_cancellation_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_CANCEL_AGAIN_SECONDS", 0.01)
    asyncio.run(stopped(LosesACancellation()))


def test_a_service_says_where_its_tasks_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def waiting() -> None:
        await asyncio.Event().wait()

    async def asked() -> None:
        task = asyncio.create_task(waiting(), name="the one that waits")
        await asyncio.sleep(0)
        log_tasks()
        task.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asked())
    told = [record.__dict__["fields"] for record in caplog.records]
    (found,) = [one for one in told if one["task"] == "the one that waits"]
    assert [place.rpartition(":")[0].rpartition(".")[2] for place in found["waits_in"]] == [
        "waiting",
        "wait",
    ]
