"""The web application in this process, on a real SQLite store, without a socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.store.opening import open_database
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import Service, service_on


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path))


@pytest.fixture
async def service(sqlite_url: str, settings: Settings) -> AsyncIterator[Service]:
    db = await open_database(sqlite_url, migrate=False)
    service = await service_on(db, settings)
    yield service
    await service.http.aclose()
    await db.close()
