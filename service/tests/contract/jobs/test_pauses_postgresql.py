"""Pausing while another process claims jobs, which only PostgreSQL allows at the same time."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.pauses import pause
from agentjobs.store.opening import open_database
from agentjobs_runtime.settings import load
from tests.support.jobs import job_harness


@pytest.mark.parametrize("paused", [None, "acme"])
async def test_a_pause_waits_for_claims_in_progress(
    postgres_url: str, tmp_path: Path, paused: str | None
) -> None:
    db = await open_database(postgres_url, migrate=False)
    harness = job_harness(db, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    await ensure_default(db, harness.context.plans)
    await harness.organization()
    claiming = await asyncpg.connect(postgres_url)
    transaction = claiming.transaction()
    await transaction.start()
    await claiming.execute("UPDATE organizations SET plan = plan WHERE name = 'acme'")
    pausing = asyncio.create_task(pause(db, paused))
    while not await claiming.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        assert not pausing.done()
    await transaction.commit()
    assert await pausing
    await claiming.close()
    await db.close()
