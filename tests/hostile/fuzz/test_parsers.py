"""Every parser of untrusted bytes, with a few inputs; `make test SUITE=fuzz` runs them for long."""

import hypothesis
import pytest

from tests.hostile.fuzz.table import TARGETS
from tests.hostile.fuzz.target import CORE_UNITS, Target

EXAMPLES = 10
MAX_GROWTH_BYTES = 4 * 1024


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_hostile_document_returns_or_raises_a_declared_error(target: Target) -> None:
    settings = hypothesis.settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None
    )
    settings(hypothesis.given(target.inputs.strategy)(target.check))()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_cpu_time_grows_linearly_with_repeated_text(target: Target) -> None:
    for frame, unit in target.growth_cases(CORE_UNITS):
        target.check_growth(frame, unit, MAX_GROWTH_BYTES)
