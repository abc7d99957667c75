"""A fixture for suites that use the store without a service; their conftest.py imports it."""

from collections.abc import AsyncIterator

import pytest

from agentjobs.store.database import Database
from agentjobs.store.opening import open_unchecked


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """It does not listen for changes of other processes, which costs a second connection."""
    db = await open_unchecked(database_url, listen=False)
    yield db
    await db.close()
