"""Defects of publishing: each is detected by its scenario, which passes without it."""

import pytest

from tests.faults.deployment import Engine
from tests.faults.mutants import OF_PUBLISHING
from tests.mutants.runs import check_mutant, check_scenario, scenarios_of


# A late push of the same change harms nothing, so no defect fails in the last two.
@pytest.mark.parametrize("scenario", [*scenarios_of(OF_PUBLISHING), "late-push", "late-work"])
def test_the_service_passes(engine: Engine, scenario: str) -> None:
    check_scenario(engine, scenario)


@pytest.mark.parametrize("mutant", OF_PUBLISHING)
def test_a_defect_is_detected(engine: Engine, mutant: str) -> None:
    check_mutant(engine, mutant)
