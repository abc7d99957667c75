"""Adapters with contract servers, for the tests of all of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.platform_adapters import (
    PLATFORMS,
    PlatformHarness,
    make_template,
    platform_harness,
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=PLATFORMS)
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformHarness]:
    async with platform_harness(request.param, tmp_path, template) as harness:
        yield harness
