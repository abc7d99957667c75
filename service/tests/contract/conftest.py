from pathlib import Path

import pytest

from agentjobs.store.database import Database
from agentjobs_runtime.settings import load
from tests.support import store_fixtures
from tests.support.clock_shift import ShiftClock, clock_shifter
from tests.support.jobs import JobHarness, job_harness

database = store_fixtures.database


@pytest.fixture
def shift_clock(monkeypatch: pytest.MonkeyPatch) -> ShiftClock:
    return clock_shifter(monkeypatch)


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    return job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
