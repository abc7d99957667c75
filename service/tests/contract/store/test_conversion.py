"""`agentjobs migrate` converts a database of 0.2.0, and keeps every row."""

import hashlib
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.claim import PUBLISHER
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.states import FINAL
from agentjobs.store.database import Database, SchemaTooOld, StoreError, Transaction
from agentjobs.store.opening import open_database, open_unchecked
from agentjobs.store.revisions import BASELINE, current_revision, known_revisions
from agentjobs.store.schema import Schema, read_schema
from agentjobs_runtime.protocol.outcomes import Completed, Failed
from agentjobs_runtime.settings import Settings
from tests.support import version_0_2
from tests.support.jobs import job_harness
from tests.support.repo_rows import EARLIER_COLUMNS, TABLES
from tests.support.stores import process

LATEST = known_revisions()[-1]
QUEUE_COLUMNS = (
    *("queue_order", "fence", "lease_owner", "lease_expires_at", "credential_hash"),
    *("waits_for", "environment_key"),
)
"""What a finished job has no more."""

PULL_COLUMNS = (
    *("repo_id", "number", "title", "body", "head_branch", "base_branch", "head_commit"),
    *("base_commit", "state", "draft", "merge_commit", "created_at", "merged_at", "closed_at"),
    *("ended_by", "url", "comment_seen", "line_comment_seen", "review_seen"),
    *("synced_at AS asked_at", "change_reported_at AS told_at"),
    "not_found_count AS missing_looks",
)
IN_EARLIER_FORM = {
    "jobs": f"SELECT j.*, {', '.join(f'q.{name}' for name in QUEUE_COLUMNS)}"
    " FROM jobs j LEFT JOIN job_queue q ON q.job_id = j.id",
    "forge_connections": "SELECT * FROM platform_connections",
    "forge_hints": "SELECT * FROM platform_hints",
    "organizations": "SELECT o.*, c.last_claimed_at FROM organizations o"
    " LEFT JOIN claimed_organizations c ON c.organization_id = o.id",
    "pulls": f"SELECT {', '.join(PULL_COLUMNS)} FROM pulls",
    "repos": f"SELECT {EARLIER_COLUMNS} FROM {TABLES}",
}
"""The rows of tables that 0.2.0 had in another form, read back in that form."""

NOT_KEPT = {
    "repos": ("scanned_at", "scan_error"),
    "forge_hints": ("kind", "external_id", "number", "due_at", "tries", "error"),
}
"""Nothing used the columns of `repos`; a delivery of a webhook only counts once."""

CONSTRAINTS = (
    "/*postgresql SELECT conname || ' ' || pg_get_constraintdef(oid) AS text FROM pg_constraint"
    " WHERE connamespace = current_schema()::regnamespace */"
    "/*sqlite SELECT m.name || ' ' || f.\"table\" || ' ' || f.\"from\" || ' ' || f.\"to\" AS text"
    " FROM sqlite_master m, pragma_foreign_key_list(m.name) f"
    " UNION ALL SELECT m.name || ' ' || c.name || ' ' || c.pk FROM sqlite_master m,"
    " pragma_table_info(m.name) c WHERE m.type = 'table' AND c.pk > 0"
    " UNION ALL SELECT m.name || ' ' || i.origin || ' ' || c.name FROM sqlite_master m,"
    " pragma_index_list(m.name) i, pragma_index_info(i.name) c WHERE i.origin <> 'c' */"
)


async def open_and_close(url: str) -> None:
    await (await open_database(url, migrate=True, convert=True)).close()


async def revision_of(url: str) -> str | None:
    db = await open_unchecked(url, listen=False)
    try:
        return await current_revision(db)
    finally:
        await db.close()


async def execute(url: str, sql: str) -> None:
    async def work(tx: Transaction) -> None:
        await tx.execute(sql)

    db = await open_unchecked(url, listen=False)
    await db.transact(work)
    await db.close()


def digest(rows: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    """How many rows there are, and a digest of what they contain."""
    lines = sorted(
        repr(sorted((name, plain(value)) for name, value in row.items() if value is not None))
        for row in map(dict, rows)
    )
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def plain(value: Any) -> Any:
    """SQLite has neither booleans nor views of bytes."""
    if isinstance(value, bool):
        return int(value)
    return bytes(value) if isinstance(value, memoryview) else value


async def test_every_row_of_0_2_is_kept(empty_database_url: str) -> None:
    await version_0_2.create(empty_database_url)
    earlier = defaultdict(list)
    for table, row in version_0_2.rows():
        is_finished = table == "jobs" and row["status"] in FINAL
        left_out = QUEUE_COLUMNS if is_finished else ()
        earlier[table].append({name: row[name] for name in row if name not in left_out})
    # The service publishes work that was kept.
    kept = {row["job_id"] for row in earlier["kept_work"]}
    for job in earlier["jobs"]:
        if job["id"] in kept:
            job |= {"lease_owner": PUBLISHER, "lease_expires_at": None}

    await open_and_close(empty_database_url)

    db = await open_unchecked(empty_database_url, listen=False)
    for table, rows in earlier.items():
        query = IN_EARLIER_FORM.get(table, f"SELECT * FROM {table}")
        for row in rows:
            for column in NOT_KEPT.get(table, ()):
                row.pop(column, None)
        assert digest(await db.fetch_all(query)) == digest(rows), table
    await db.close()


async def test_jobs_of_0_2_continue_with_their_claims(empty_database_url: str) -> None:
    await version_0_2.create(empty_database_url)
    [running] = [row for _, row in version_0_2.rows() if row.get("status") == "running"]
    copied = ", ".join(name for name in running if not name.startswith(("id", "status", "lease")))
    columns = copied.replace(", credential_hash", "").replace(", kept_at", "")
    for job_id, kept_at in (("job_waiting", "NULL"), ("job_kept", "1")):
        await execute(
            empty_database_url,
            f"INSERT INTO jobs (id, status, kept_at, {columns})"
            f" SELECT '{job_id}', 'queued', {kept_at}, {columns} FROM jobs"
            " WHERE status = 'running'",
        )
    await execute(empty_database_url, "UPDATE kept_work SET job_id = 'job_kept'")
    await open_and_close(empty_database_url)

    db = await open_database(empty_database_url, migrate=False)
    harness = job_harness(db, Settings(data_dir="/nonexistent"))
    [waiting] = await Claimer(harness.context, "wrk_new").claim([running["agent"]], 2)
    assert waiting.id == "job_waiting"
    [kept] = await claim_kept_work(db, 4, 10_000)
    assert kept.id == "job_kept"
    assert await finish_job(db, kept, Completed("http://x/1", 1, "2" * 40, draft=False))
    assert waiting.fence > running["fence"]
    held = msgspec.structs.replace(waiting, id=running["id"], fence=running["fence"])
    stale = msgspec.structs.replace(held, fence=running["fence"] + 1)
    assert not await finish_job(db, stale, Failed("timeout", ""))
    assert await finish_job(db, held, Failed("timeout", ""))
    await db.close()


@pytest.mark.parametrize(
    ("empty_database_url", "database_url"),
    [("sqlite", "sqlite"), ("postgresql", "postgresql")],
    indirect=True,
)
async def test_a_converted_database_has_the_schema_of_a_new_one(
    empty_database_url: str, database: Database
) -> None:
    await version_0_2.create(empty_database_url)
    await open_and_close(empty_database_url)
    converted = await open_unchecked(empty_database_url, listen=False)
    actual, expected = await read_schema(converted), await read_schema(database)
    assert without_quotes(actual) == without_quotes(expected)
    assert await constraints(converted) == await constraints(database)
    await converted.close()


def without_quotes(schema: Schema) -> Any:
    """A default may be '0' or 0."""
    tables = {
        table: {
            name: (
                column.type,
                column.is_required,
                column.default and column.default.partition("::")[0].strip("'"),
            )
            for name, column in columns.items()
        }
        for table, columns in schema.tables.items()
    }
    return tables, schema.indexes


async def constraints(db: Database) -> list[str]:
    return sorted(row["text"] for row in await db.fetch_all(CONSTRAINTS))


async def test_only_the_command_converts(empty_database_url: str) -> None:
    await version_0_2.create(empty_database_url)
    for migrate in (True, False):
        with pytest.raises(SchemaTooOld, match=r"of agentjobs 0\.2, .* run `agentjobs migrate`"):
            await open_database(empty_database_url, migrate=migrate, create=True)
    assert await revision_of(empty_database_url) == version_0_2.REVISION


async def test_versions_before_0_2_0_are_refused(empty_database_url: str) -> None:
    await version_0_2.create(empty_database_url, revision="0024", with_rows=False)
    with pytest.raises(SchemaTooOld, match=r"schema 0024 .* install agentjobs 0\.2\.0 and run its"):
        await open_database(empty_database_url, migrate=True, convert=True)
    assert await revision_of(empty_database_url) == "0024"


async def test_a_killed_conversion_is_repeated_and_logged(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await version_0_2.create(empty_database_url)
    async with process("die_in_conversion", empty_database_url) as started:
        assert await started.wait() == -signal.SIGKILL
    assert await revision_of(empty_database_url) == version_0_2.REVISION

    caplog.clear()
    caplog.set_level("INFO", "agentjobs")
    await open_and_close(empty_database_url)
    assert await revision_of(empty_database_url) == LATEST
    names = ("agentjobs.store.migrate", "agentjobs.store.migrations.from_0_2")
    lines = [record.getMessage() for record in caplog.records if record.name in names]
    assert lines[0] == f"migrating from schema {version_0_2.REVISION} to schema {LATEST}"
    assert lines[1].startswith("converted connections to platforms in ")
    assert lines[-1].startswith(f"migrated to schema {LATEST} in ")


async def test_a_failed_conversion_says_what_to_do_and_is_repeated(empty_database_url: str) -> None:
    await version_0_2.create(empty_database_url)
    await execute(empty_database_url, "CREATE TABLE platform_hints (id TEXT)")
    with pytest.raises(StoreError, match="platform_hints") as failure:
        await open_and_close(empty_database_url)
    assert "run `agentjobs migrate` again" in failure.value.__notes__[0]
    assert await revision_of(empty_database_url) == version_0_2.REVISION

    await execute(empty_database_url, "DROP TABLE platform_hints")
    await open_and_close(empty_database_url)


async def test_the_baseline_begins_a_generation_that_0_2_refuses() -> None:
    """0.2.0 runs on later revisions with the same first digit."""
    assert BASELINE[0] != version_0_2.REVISION[0]
