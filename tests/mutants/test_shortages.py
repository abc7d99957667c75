"""Scenarios that no single edit makes fail: several parts of the service withstand them."""

import pytest

from tests.faults.deployment import Engine
from tests.faults.mutants import MUTANTS
from tests.faults.scenarios import SCENARIOS
from tests.mutants.runs import check_scenario, scenarios_of


@pytest.mark.parametrize("scenario", sorted({*SCENARIOS} - {*scenarios_of(MUTANTS)}))
def test_the_service_passes(engine: Engine, scenario: str) -> None:
    check_scenario(engine, scenario)
