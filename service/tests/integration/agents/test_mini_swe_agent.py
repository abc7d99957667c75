"""The real mini-swe-agent, in the sandbox and through the gateway, with a scripted model.

A run takes seconds, so there is only one here; `tests/agents` has the others.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.gateway.spending import Totals
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_worker.agents.readiness import check_readiness
from tests.support.agent_programs import WRITE, drive
from tests.support.gateway import REAL_KEY, gateway_harness
from tests.support.mini_swe_agent import mini, replies_that_write_and_submit
from tests.support.paths import PROJECT


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


async def test_it_is_ready_where_make_installed_it() -> None:
    result = await check_readiness(mini())
    assert result.reason is None
    assert f"mini-swe-agent=={result.version}" in (PROJECT / "requirements-agents.lock").read_text()


async def test_it_changes_files_and_is_charged(db: Database, tmp_path: Path) -> None:
    async with gateway_harness(db, replies_that_write_and_submit(), job_usd=1) as harness:
        driven = await drive(mini(), harness.gateway, tmp_path)
        totals = await harness.settled()
        requests = harness.provider.requests
    assert driven.failure is None, driven.log
    assert driven.changed() == ["out.txt"]
    assert driven.pull is not None
    assert driven.pull.title == "Write out.txt"
    assert totals == Totals(
        input_tokens=200, output_tokens=40, cost_nanousd=2 * (100_000 + 200_000), requests=2
    )
    assert [(step.title, step.exit_code) for step in driven.steps if step.kind == "command"] == [
        (WRITE, 0)
    ]
    assert "out.txt" in str(requests[0].body), "the task is in its prompt"
    assert REAL_KEY not in driven.log
