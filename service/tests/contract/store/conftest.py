"""The store as services open it: it listens for changes of other processes."""

from collections.abc import AsyncIterator

import pytest

from agentjobs.store.database import Database
from agentjobs.store.opening import open_database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    db = await open_database(database_url, migrate=False)
    yield db
    await db.close()
