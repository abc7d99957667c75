"""Defects that outages reveal: each is detected by its scenario, which passes without it."""

import pytest

from tests.faults.deployment import Engine
from tests.faults.mutants import OF_OUTAGES
from tests.mutants.runs import check_mutant, check_scenario, scenarios_of


# Measuring the limits of agents needs no memory, so no defect fails in the last one.
@pytest.mark.parametrize("scenario", [*scenarios_of(OF_OUTAGES), "no-memory"])
def test_the_service_passes(engine: Engine, scenario: str) -> None:
    check_scenario(engine, scenario)


@pytest.mark.parametrize("mutant", OF_OUTAGES)
def test_a_defect_is_detected(engine: Engine, mutant: str) -> None:
    check_mutant(engine, mutant)
