"""They install from the package index, so only `make test SUITE=distribution` runs them."""

from pathlib import Path

import pytest

from tests.support.installed_program import build_packages


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/distribution" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_packages(tmp_path_factory.mktemp("packages"))
