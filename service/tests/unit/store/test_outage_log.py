"""An outage of the store is logged once, with the failures it caused at its end."""

import asyncio
import logging
import threading

import pytest

from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime import loop
from agentjobs_runtime.loop import keep_alive
from agentjobs_runtime.outage_log import OutageLog
from tests.support.service import wait_until

ERROR = StoreUnavailable("connection refused")


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def wait_for_end(caplog: pytest.LogCaptureFixture, outages: int = 1) -> None:
    def ended() -> bool:
        return sum("available again" in message for _, message in messages(caplog)) == outages

    wait_until(ended, "the end of the outage to be logged")


def test_failures_during_an_outage_are_counted_and_logged_at_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    log = OutageLog(quiet_seconds=0)
    # The outage ends when the test says so, however slow the machine is.
    monkeypatch.setattr(log, "_start_following", lambda: None)
    for _ in range(90):
        log.report("deliveries", ERROR)
    log.report("leases", TimeoutError())
    log._follow()
    first, last = messages(caplog)
    assert first == (
        logging.WARNING,
        "the store is unavailable, first for deliveries: connection refused",
    )
    assert last[0] == logging.INFO
    assert last[1].startswith("the store is available again; failed attempts: 91 in ")
    assert caplog.records[1].__dict__["fields"] == {"failures": {"deliveries": 90, "leases": 1}}


def test_the_next_outage_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = OutageLog(quiet_seconds=0.01)
    for outages, error in enumerate((ERROR, TimeoutError()), 1):
        log.report("jobs", error)
        wait_for_end(caplog, outages)
    warnings = [message for level, message in messages(caplog) if level == logging.WARNING]
    assert warnings == [
        "the store is unavailable, first for jobs: connection refused",
        "the store is unavailable, first for jobs: no response in time",
    ]


def test_a_long_outage_is_logged_again_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    OutageLog(reminder_seconds=0).report("jobs", ERROR)
    wait_until(lambda: len(caplog.records) == 2, "the reminder to be logged")
    assert messages(caplog)[1] == (
        logging.WARNING,
        "the store is still unavailable; failed attempts: 1 in 0 s",
    )


async def test_loops_that_wait_for_the_store_share_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "outages", OutageLog())
    monkeypatch.setattr(loop, "_PAUSE_AFTER_FAULT_SECONDS", 0.0)
    starts = 0

    async def run() -> None:
        nonlocal starts
        starts += 1
        if starts < 10:
            raise ERROR

    await asyncio.gather(keep_alive("one", run), keep_alive("two", run))
    assert messages(caplog) == [
        (logging.WARNING, "the store is unavailable, first for one: connection refused")
    ]


def test_a_process_that_cannot_start_a_thread_logs_every_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    log = OutageLog()
    for _ in range(2):
        log.report("jobs", ERROR)
    assert len(messages(caplog)) == 2
