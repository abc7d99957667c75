"""A short schedule of faults on each engine; `make test SUITE=faults` runs long ones."""

import pytest

from tests.faults.campaign import run_seed
from tests.faults.deployment import Engine
from tests.faults.schedule import TOPOLOGIES, Fault, Topology, plan


@pytest.mark.parametrize(
    ("name", "seed", "topology"),
    [("sqlite", 3, Topology.SINGLE), ("postgresql", 7, Topology.POOLED)],
)
def test_every_accepted_job_ends_once_whatever_fails(
    request: pytest.FixtureRequest,
    postgres_template: str,
    name: str,
    seed: int,
    topology: Topology,
) -> None:
    migrated = {"sqlite": "sqlite_template", "postgresql": "postgres_files"}[name]
    engine = Engine(name, request.getfixturevalue(migrated), postgres_template)
    try:
        result = run_seed(engine, seed, fault_seconds=2, topology=topology)
    finally:
        engine.close()
    assert result.violations == []


def test_a_seed_has_the_same_schedule_each_time() -> None:
    assert plan(7, "postgresql") == plan(7, "postgresql")
    assert plan(8, "postgresql").faults != plan(7, "postgresql").faults


def test_every_fault_and_every_topology_is_planned() -> None:
    schedules = [plan(seed, engine) for engine in TOPOLOGIES for seed in range(40)]
    assert {fault.fault for schedule in schedules for fault in schedule.faults} == {*Fault} - {
        Fault.CANCEL
    }
    assert {schedule.topology for schedule in schedules} == set(Topology)
