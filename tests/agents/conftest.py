"""These need half a gigabyte of agents: they run when asked for by name, `make test-agents`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/agents" in argument for argument in config.args) else True


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()
