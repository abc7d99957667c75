from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile_service import HostileService, hostile_service
from tests.support.service import Service


@pytest.fixture(scope="session", autouse=True)
def _migrated_stores(sqlite_template: Path) -> None:
    Service.sqlite_template = sqlite_template


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileService]:
    """One `agentjobs up` for all hostile agents, so that each test detects earlier damage."""
    with hostile_service(tmp_path_factory.mktemp("hostile")) as opened:
        yield opened
