"""These tests need Caddy, so only `make test SUITE=proxies` runs them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/proxies" in argument for argument in config.args) else True
