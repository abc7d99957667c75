"""These tests build images and run containers, so only `make test SUITE=container` runs them."""

from pathlib import Path

import pytest

from tests.container import harness


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/container" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def image() -> str:
    name = "localhost/agentjobs:test"
    harness.prepare_storage()
    harness.build(name)
    return name
