"""The phases of a job as bars and lists."""

import re

import pytest

from agentjobs.jobs.phases import INTERRUPTIONS, PHASES, PhaseView
from agentjobs.web.dashboard.jobs.phase_bars import phase_title, run_bars

AT = "2026-01-31T12:00:00.000Z"


def phase(name, elapsed_ms=1_000, attempt=1, *, ended=True, interruption=None):
    return PhaseView(name, attempt, AT, AT if ended else None, elapsed_ms, interruption)


def bars_of(status, *phases):
    return run_bars(phases, status)


def widths(bar):
    return [float(width) for width in re.findall(r'width="([\d.]+)"', bar.svg)]


def test_a_short_phase_stays_visible_beside_a_long_one():
    (bar,) = bars_of("completed", phase("queued", 0), phase("agent", 3_600_000), phase("push", 4))
    queued, agent, push = widths(bar)
    assert min(queued, push) > 5
    assert agent > 500
    assert [line.title for line in bar.lines] == ["Queued", "Agent", "Push"]
    assert "<title>Agent: 1 h</title>" in bar.svg


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_the_last_phase_of_a_job_without_success_says_so(status):
    (bar,) = bars_of(status, phase("queued"), phase("checks"))
    assert [line.end for line in bar.lines] == ["", status]
    assert (bar.lines[-1].css_class == "s-bad") is (status == "failed")
    assert f"<title>Checks: 1.0 s {status}</title>" in bar.svg


def test_the_current_phase_is_marked():
    (bar,) = bars_of("running", phase("queued"), phase("agent", ended=False))
    assert [line.is_current for line in bar.lines] == [False, True]
    assert bar.svg.count(" now") == 1


def test_the_latest_attempt_comes_first_and_earlier_ones_say_why_they_ended():
    lost = phase("agent", interruption="worker_lost")
    bars = bars_of(
        "failed", phase("queued"), lost, phase("queued", attempt=2), phase("agent", attempt=2)
    )
    assert [bar.number for bar in bars] == [2, 1]
    assert [bar.lines[-1].end for bar in bars] == ["failed", "worker lost"]


@pytest.mark.parametrize("status", ["queued", "completed"])
def test_a_job_that_only_waited_has_no_bar(status):
    assert bars_of(status, phase("queued")) == []
    assert bars_of(status) == []


def test_every_phase_and_interruption_has_words():
    titles = {phase_title(name) for name in PHASES}
    assert len(titles) == len(PHASES)
    assert phase_title("cool_down") == "Cool down"
    for interruption in (*INTERRUPTIONS, "solar_flare"):
        (bar,) = bars_of("queued", phase("agent", interruption=interruption))
        assert bar.lines[-1].end
        assert "_" not in bar.lines[-1].end
