"""How far estimates are from the waits that follow, over a simulated day."""

import statistics

from tests.support.queue_day import simulate_day

MAX_MEDIAN_ERROR = 0.3


def test_the_median_error_over_a_day_is_below_30_percent_of_the_wait() -> None:
    jobs = simulate_day(seed=19)
    waited = [job for job in jobs if job.had_to_wait]
    assert len(waited) > 500
    assert statistics.median(job.relative_error for job in waited) <= MAX_MEDIAN_ERROR
    started_at_once = [job.estimate_ms for job in jobs if not job.had_to_wait]
    assert len(started_at_once) > 200
    assert set(started_at_once) == {0}
