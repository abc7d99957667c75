"""Runs the scenarios of mutants with and without their defects."""

import shutil
from collections.abc import Mapping

from tests.faults.campaign import run_schedule
from tests.faults.deployment import Engine
from tests.faults.mutants import MUTANTS, Mutant, mutated
from tests.faults.scenarios import BEGIN_SECONDS, SCENARIOS


def scenarios_of(mutants: Mapping[str, Mutant]) -> list[str]:
    return sorted({mutant.scenario for mutant in mutants.values()})


def check_scenario(engine: Engine, name: str) -> None:
    """Every fault happens, and harms no job."""
    result = run_schedule(engine, name, SCENARIOS[name], BEGIN_SECONDS)
    assert result.violations == []
    assert result.faults.total() == len(SCENARIOS[name].faults)


def check_mutant(engine: Engine, name: str) -> None:
    mutant = MUTANTS[name]
    with mutated(name) as source:
        result = run_schedule(engine, name, SCENARIOS[mutant.scenario], BEGIN_SECONDS, source)
    assert mutant.violation in "; ".join(result.violations)
    shutil.rmtree(result.directory)
