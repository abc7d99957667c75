"""These tests need compilers and minutes, so only `make test-fixes` runs them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/fixes" in argument for argument in config.args) else True
