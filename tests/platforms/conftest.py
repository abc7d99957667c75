"""These tests need a Gitea and a Forgejo, so only `make test SUITE=platforms` runs them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.build_platforms import FORGEJO, GITEA, PROGRAM, SOURCE_BUILD
from tests.platforms.live_server import LiveServer, running_server

_BUILDS = Path(__file__).parents[2] / ".platforms"
_FORGEJO = SOURCE_BUILD if os.environ.get("FORGEJO_SOURCE") else FORGEJO.directory


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/platforms" in argument for argument in config.args) else True


@pytest.fixture(scope="session", params=[GITEA.directory, _FORGEJO])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    build = _BUILDS / request.param
    with running_server(build, PROGRAM, tmp_path_factory.mktemp(request.param)) as running:
        yield running
