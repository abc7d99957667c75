import pytest

from agentjobs.clock import now_ms
from agentjobs.webhooks import retry_schedule
from agentjobs.webhooks.retry_schedule import POLL_MS, Timetable


def test_it_is_time_at_once_and_then_after_a_poll() -> None:
    table = Timetable()
    assert table.wait_ms == 0

    table.looked()

    assert 0 < table.wait_ms <= POLL_MS


def test_a_retry_of_its_own_is_looked_for_when_it_is_due() -> None:
    table = Timetable()
    table.looked()
    table.note(now_ms() + 200)
    assert table.wait_ms <= 200

    table.note(now_ms() - 1)
    assert table.wait_ms == 0

    table.looked()
    assert table.wait_ms > 0


def test_a_look_can_be_asked_for() -> None:
    table = Timetable()
    table.looked()

    table.look_soon()

    assert table.wait_ms == 0


def test_a_clock_that_is_set_back_delays_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Timetable()
    table.note(now_ms() + 500)
    table.looked()
    hour_ago = now_ms() - 3_600_000

    monkeypatch.setattr(retry_schedule, "now_ms", lambda: hour_ago)

    assert table.wait_ms <= POLL_MS
