"""The schema itself is compared with what the migrations create, not only its revision."""

import json
import os
from unittest.mock import patch

import msgspec
import pytest

from agentjobs.store import migrate
from agentjobs.store.database import Database, Engine, SchemaDamaged, Transaction
from agentjobs.store.opening import find_schema_differences, open_database, open_unchecked
from agentjobs.store.schema import SNAPSHOT, Schema, expected_schema, read_schema

REWRITE = "AGENTJOBS_TEST_REWRITE_SCHEMA"


async def execute(db: Database, *statements: str) -> None:
    async def work(tx: Transaction) -> None:
        for statement in statements:
            await tx.execute(statement)

    await db.transact(work)


async def differences(url: str) -> list[str]:
    db = await open_unchecked(url, listen=False)
    try:
        return sorted(each.what for each in await find_schema_differences(db))
    finally:
        await db.close()


async def open_and_close(url: str, *, migrate: bool) -> None:
    await (await open_database(url, migrate=migrate)).close()


async def test_the_expected_schema_is_what_the_migrations_create(empty_database_url: str) -> None:
    with patch.object(migrate, "_mend", lambda _: None):
        await open_and_close(empty_database_url, migrate=True)
    db = await open_unchecked(empty_database_url, listen=False)
    schema = await read_schema(db)
    await db.close()
    if REWRITE in os.environ:
        rewrite(db.engine, schema)
    assert schema == expected_schema(db.engine), "run make schema"


def rewrite(engine: Engine, schema: Schema) -> None:
    document = json.loads(SNAPSHOT.read_text()) if SNAPSHOT.exists() else {}
    document = dict(sorted({**document, engine: msgspec.to_builtins(schema)}.items()))
    # A line for each table and index, so that changes can be read.
    parts = [
        f'"{name}": {{"tables": {{\n{lines(each["tables"])}\n}}, "indexes": {{\n'
        f"{lines(each['indexes'])}\n}}}}"
        for name, each in document.items()
    ]
    SNAPSHOT.write_text("{" + ",\n".join(parts) + "}\n")
    expected_schema.cache_clear()


def lines(entries: dict[str, object]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in entries.items())


async def test_missing_columns_and_indexes_are_refused_or_added(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await execute(
        database,
        "DROP INDEX pulls_changed",
        "DROP INDEX repos_connected",
        "ALTER TABLE pulls DROP COLUMN change_reported_at",
        "ALTER TABLE jobs DROP COLUMN lost_workers",
    )
    with pytest.raises(SchemaDamaged, match=r"column .* missing \(and 2 more\); run .*migrate"):
        await open_and_close(database_url, migrate=False)
    await open_and_close(database_url, migrate=True)
    for added in (
        "column pulls.change_reported_at",
        "column jobs.lost_workers",
        "index repos_connected",
    ):
        assert f"the {added} is missing: added it" in caplog.text
    assert await differences(database_url) == []
    assert await read_schema(database) == expected_schema(database.engine)


async def test_a_missing_index_that_only_makes_reads_fast_is_named(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await execute(database, "DROP INDEX job_queue_leased")
    await open_and_close(database_url, migrate=False)
    assert "the index job_queue_leased is missing; run `agentjobs migrate`" in caplog.text


async def test_what_cannot_be_added_is_named(database: Database, database_url: str) -> None:
    await execute(
        database,
        "DROP TABLE event_positions",
        "DROP TABLE job_reports",
        "CREATE TABLE job_reports (job_id TEXT PRIMARY KEY, result TEXT, created_at BIGINT)",
    )
    for migrates in (True, False):
        with pytest.raises(SchemaDamaged, match=r"table event_positions .* restore a backup"):
            await open_and_close(database_url, migrate=migrates)
    named = await differences(database_url)
    assert named == [
        "the column job_reports.markdown is missing",
        "the table event_positions is missing",
    ]


async def test_a_missing_table_is_named_and_not_its_indexes(
    database: Database, database_url: str
) -> None:
    await execute(database, "DROP TABLE deliveries")
    for migrates in (True, False):
        with pytest.raises(SchemaDamaged, match=r"table deliveries is missing; restore a backup"):
            await open_and_close(database_url, migrate=migrates)


async def test_a_database_that_lost_its_revision_is_not_migrated_from_the_start(
    database: Database, database_url: str
) -> None:
    await execute(database, "DELETE FROM alembic_version")
    with pytest.raises(SchemaDamaged, match=r"has the table advisories, but no revision"):
        await open_and_close(database_url, migrate=True)


async def test_a_column_of_another_type_is_named(database: Database, database_url: str) -> None:
    await execute(
        database,
        "DROP TABLE event_positions",
        "CREATE TABLE event_positions (organization_id TEXT PRIMARY KEY, last_position TEXT)",
    )
    (named,) = await differences(database_url)
    assert named.lower() == (
        "the column event_positions.last_position has the type text instead of bigint"
    )


async def test_a_newer_schema_may_have_more_and_other_indexes(
    database: Database, database_url: str
) -> None:
    await execute(
        database,
        "UPDATE alembic_version SET version_num = '1999'",
        "DROP INDEX job_queue_leased",
        "ALTER TABLE jobs ADD COLUMN later TEXT",
        "CREATE TABLE later (id TEXT PRIMARY KEY)",
        "CREATE INDEX later_of_jobs ON jobs (later)",
    )
    await open_and_close(database_url, migrate=True)
    assert "job_queue_leased" not in (await read_schema(database)).indexes
    await execute(database, "ALTER TABLE jobs DROP COLUMN lost_workers")
    with pytest.raises(SchemaDamaged, match=r"jobs\.lost_workers"):
        await open_and_close(database_url, migrate=False)
