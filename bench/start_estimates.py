"""How far `estimated_start_ms` is from the wait that follows, over simulated days."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench.report import verdict
from tests.support.queue_day import AGENTS, Job, simulate_day

DAYS = 30
GOAL = 0.3
_HOURS = 4


def measure() -> list[dict[str, Any]]:
    days = [[job for job in simulate_day(seed) if job.had_to_wait] for seed in range(1, DAYS + 1)]
    errors = [_median_error(day) for day in days]
    jobs = [job for day in days for job in day]
    return [
        _figure("all", jobs, f"≤ {GOAL}: {verdict(met=_median_error(jobs) <= GOAL)}"),
        _figure("of the best day", days[errors.index(min(errors))]),
        _figure("of the worst day", days[errors.index(max(errors))]),
        *(_figure(agent, [job for job in jobs if job.agent == agent]) for agent in AGENTS),
        *(
            _figure(f"{hour}:00 to {hour + _HOURS}:00", _of_hours(jobs, hour))
            for hour in range(0, 24, _HOURS)
        ),
    ]


def _of_hours(jobs: Sequence[Job], first: int) -> list[Job]:
    return [job for job in jobs if first <= job.hour < first + _HOURS]


def _figure(name: str, jobs: Sequence[Job], goal: str = "") -> dict[str, Any]:
    return {
        "jobs that waited": name,
        "number": len(jobs),
        "median error": _median_error(jobs),
        "goal": goal,
    }


def _median_error(jobs: Sequence[Job]) -> float:
    """Relative to the wait."""
    return statistics.median(job.relative_error for job in jobs)
