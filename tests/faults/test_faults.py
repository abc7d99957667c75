"""Two short schedules of faults; `make faults` runs long ones."""

import pytest

from tests.faults.campaign import Engine, run_seed
from tests.faults.schedule import plan


@pytest.mark.parametrize(("name", "seed"), [("sqlite", 3), ("postgresql", 1)])
def test_every_accepted_job_ends_once_whatever_fails(name: str, seed: int) -> None:
    engine = Engine(name)
    try:
        result = run_seed(engine, seed, fault_seconds=2)
    finally:
        engine.close()
    assert result.violations == []


def test_a_seed_has_the_same_schedule_each_time() -> None:
    first, second = (plan(7, ("up",), has_server=True) for _ in range(2))
    assert first == second
    assert plan(8, ("up",), has_server=True).faults != first.faults
