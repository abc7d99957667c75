"""Loops stop when asked to, even if a cancellation is lost or hidden by an error."""

import asyncio
import errno
import logging

import pytest

from agentjobs.app.signals import log_tasks
from agentjobs_runtime import loop


class FailsWhenStopped:
    """Its cleanup raises an error that hides the cancellation."""

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


async def run_and_stop(stubborn: FailsWhenStopped | LosesACancellation) -> None:
    until = asyncio.Event()
    running = asyncio.create_task(loop.run_loops([stubborn], until))
    await stubborn.began.wait()
    until.set()
    await asyncio.wait_for(running, 30)


def test_a_loop_that_fails_while_it_is_stopped_is_not_started_again() -> None:
    failing = FailsWhenStopped()
    asyncio.run(run_and_stop(failing))
    assert failing.starts == 1


def test_a_loop_that_ignores_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_CANCEL_AGAIN_SECONDS", 0.01)
    asyncio.run(run_and_stop(LosesACancellation()))


def test_a_full_disk_is_one_line_in_the_log_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "_PAUSE_AFTER_FAULT_SECONDS", 0)
    errors = [OSError(errno.ENOSPC, "No space left on device", "/data/mirrors")]

    async def run() -> None:
        if errors:
            raise errors.pop()

    asyncio.run(loop.keep_alive("mirrors", run))
    (record,) = caplog.records
    assert record.getMessage() == (
        "mirrors failed and is restarted: the disk of /data/mirrors is full; free some space there"
    )
    assert record.exc_info is None


def test_a_service_logs_where_its_tasks_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def waiting() -> None:
        await asyncio.Event().wait()

    async def log_while_waiting() -> None:
        task = asyncio.create_task(waiting(), name="waiting task")
        await asyncio.sleep(0)
        log_tasks()
        task.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(log_while_waiting())
    entries = [record.__dict__["fields"] for record in caplog.records]
    (entry,) = [each for each in entries if each["task"] == "waiting task"]
    assert [frame.rpartition(":")[0].rpartition(".")[2] for frame in entry["waits_in"]] == [
        "waiting",
        "wait",
    ]
