"""These tests need half a gigabyte of agents, so only `make test SUITE=agents` runs them."""

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
