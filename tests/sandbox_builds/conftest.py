"""These builds need compilers and minutes, so only `make test SUITE=sandbox_builds` runs them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/sandbox_builds" in argument for argument in config.args) else True
