"""Every process may be the first to start, and none starts on a schema it does not support."""

import ast
import asyncio
import logging
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from agentjobs.store.database import Database, SchemaTooNew, SchemaTooOld, Transaction
from agentjobs.store.opening import open_database, schema_is_supported
from agentjobs.store.revisions import MIGRATIONS, known_revisions
from tests.support.stores import process, read_line


async def _set_revision(db: Database, revision: str) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute("UPDATE alembic_version SET version_num = :revision", revision=revision)

    await db.transact(update)


async def test_an_empty_database_is_migrated_on_request(empty_database_url: str) -> None:
    db = await open_database(empty_database_url, migrate=True)
    try:
        assert await schema_is_supported(db)
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
        assert await schema_is_supported(db)
        await db.close()


async def test_a_newer_schema_of_another_generation_is_refused(
    database: Database, database_url: str
) -> None:
    await _set_revision(database, "9999")

    assert not await schema_is_supported(database)
    for migrate in (True, False):
        with pytest.raises(SchemaTooNew, match="9999"):
            await open_database(database_url, migrate=migrate)


async def test_a_newer_schema_that_only_adds_is_supported_and_logged(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _set_revision(database, "1999")

    assert await schema_is_supported(database)
    caplog.set_level(logging.INFO, "agentjobs")
    for migrate in (True, False):
        db = await open_database(database_url, migrate=migrate)
        assert await schema_is_supported(db)
        await db.close()
    assert caplog.text.count("has schema 1999, which only adds to") == 2


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


def test_indexes_on_existing_tables_are_created_without_blocking_writers() -> None:
    for path in sorted((MIGRATIONS / "versions").glob("[0-9]*_*.py")):
        created = {table for name, table in _operations(path) if name == "create_table"}
        blocking = {table for name, table in _operations(path) if name == "create_index"} - created
        assert not blocking, f"{path.name}: use store.migrations.indexes.create_index"


def test_a_migration_that_creates_indexes_concurrently_does_nothing_else() -> None:
    """Such a migration is not one transaction, so it must be possible to run it again."""
    for path in sorted((MIGRATIONS / "versions").glob("[0-9]*_*.py")):
        if "migrations.indexes" in path.read_text():
            assert not list(_operations(path)), path.name


def _operations(path: Path) -> list[tuple[str, str]]:
    """The calls of Alembic's operations, with the table that they change."""
    calls = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "op":
            position = 1 if node.func.attr == "create_index" else 0
            table = node.args[position] if len(node.args) > position else None
            calls.append((node.func.attr, getattr(table, "value", "")))
    return calls
