from pathlib import Path

import pytest

from agentjobs.settings import load
from agentjobs.store.database import Database
from tests.support import jobs as worlds


@pytest.fixture
def world(database: Database, tmp_path: Path) -> worlds.World:
    return worlds.world_of(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
