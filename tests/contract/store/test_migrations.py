"""Every process may be the first to start, and none starts on a schema it does not know."""

import asyncio

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from agentjobs.store.database import Database, SchemaTooNew, SchemaTooOld, Transaction
from agentjobs.store.opening import open_database, schema_is_current
from agentjobs.store.revisions import MIGRATIONS, known_revisions
from tests.support.stores import process, read_line


async def _set_revision(db: Database, revision: str) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute("UPDATE alembic_version SET version_num = :revision", revision=revision)

    await db.transact(update)


async def test_an_empty_database_is_migrated_on_request(empty_database_url: str) -> None:
    db = await open_database(empty_database_url, migrate=True)
    try:
        assert await schema_is_current(db)
        assert await db.fetch_all("SELECT * FROM jobs") == []
    finally:
        await db.close()


async def test_an_empty_database_is_refused_without_migration(empty_database_url: str) -> None:
    with pytest.raises(SchemaTooOld, match="agentjobs migrate"):
        await open_database(empty_database_url, migrate=False)


async def test_processes_that_start_together_migrate_once(empty_database_url: str) -> None:
    async with (
        process("migrate", empty_database_url) as first,
        process("migrate", empty_database_url) as second,
    ):
        assert await read_line(first) == "current True"
        assert await read_line(second) == "current True"
        assert await first.wait() == await second.wait() == 0


async def test_openings_in_one_process_may_overlap(empty_database_url: str) -> None:
    databases = await asyncio.gather(
        *(open_database(empty_database_url, migrate=True) for _ in range(3))
    )
    for db in databases:
        assert await schema_is_current(db)
        await db.close()


async def test_a_newer_schema_is_refused(database: Database, database_url: str) -> None:
    await _set_revision(database, "9999")

    assert not await schema_is_current(database)
    for migrate in (True, False):
        with pytest.raises(SchemaTooNew, match="9999"):
            await open_database(database_url, migrate=migrate)


async def test_a_current_schema_costs_no_import_of_alembic(database_url: str) -> None:
    async with process("imports", database_url) as started:
        imported = await read_line(started)

    assert imported == {"s": "", "p": "asyncpg"}[database_url[0]]


def test_file_names_say_what_alembic_finds_in_the_files() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    in_files = [script.revision for script in scripts.walk_revisions()]
    assert list(reversed(in_files)) == known_revisions()
