"""A migration that is interrupted can be repeated, and nothing of its step is left behind."""

import logging
import signal

import pytest

from agentjobs.store.database import SchemaTooOld, StoreError, Transaction
from agentjobs.store.opening import open_database, open_unchecked
from agentjobs.store.revisions import current_revision, known_revisions
from tests.support.earlier_schema import migrate_to
from tests.support.stores import process

LATEST = known_revisions()[-1]


async def revision_of(url: str) -> str | None:
    db = await open_unchecked(url, listen=False)
    try:
        return await current_revision(db)
    finally:
        await db.close()


async def test_a_killed_migration_is_repeated_and_logged(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await migrate_to(empty_database_url, "0024")
    async with process("die_in_migration", empty_database_url) as started:
        assert await started.wait() == -signal.SIGKILL
    assert await revision_of(empty_database_url) == "0024"
    # What only needs a schema does not migrate this one.
    with pytest.raises(SchemaTooOld, match=r"has schema 0024, .* run `agentjobs migrate`"):
        await open_database(empty_database_url, migrate=False, create=True)

    caplog.clear()
    caplog.set_level(logging.INFO, "agentjobs")
    db = await open_database(empty_database_url, migrate=True)
    await db.close()
    assert await revision_of(empty_database_url) == LATEST
    # An earlier test may have left an outage, whose end is logged, too.
    records = [each for each in caplog.records if each.name == "agentjobs.store.migrate"]
    lines = [record.getMessage() for record in records]
    assert lines[0] == f"migrating from schema 0024 to schema {LATEST}"
    assert lines[1].startswith("applied migration 0025 in ")
    assert lines[-1].startswith(f"migrated to schema {LATEST} in ")
    assert len(lines) == 2 + len([each for each in known_revisions() if each > "0024"])


@pytest.mark.parametrize("empty_database_url", ["postgresql"], indirect=True)
async def test_a_failed_migration_says_what_to_do_and_is_repeated(empty_database_url: str) -> None:
    async def execute(sql: str) -> None:
        async def work(tx: Transaction) -> None:
            await tx.execute(sql)

        db = await open_unchecked(empty_database_url, listen=False)
        await db.transact(work)
        await db.close()

    await migrate_to(empty_database_url, "0024")
    await execute("CREATE TABLE job_reports (id TEXT)")
    with pytest.raises(StoreError, match="job_reports") as failure:
        await open_database(empty_database_url, migrate=True)
    assert "run `agentjobs migrate` again" in failure.value.__notes__[0]
    assert await revision_of(empty_database_url) == "0024"

    await execute("DROP TABLE job_reports")
    db = await open_database(empty_database_url, migrate=True)
    await db.close()
