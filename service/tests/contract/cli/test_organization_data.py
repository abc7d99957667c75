"""Exporting and deleting all data of an organization, on both databases.

The tests fill every table of the schema, whatever tables there are.
"""

import asyncio
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import msgspec
import pytest

from agentjobs.cli.orgs import deletion
from agentjobs.cli.orgs.deletion import delete_organization
from agentjobs.cli.orgs.export import export_organization
from agentjobs.cli.orgs.tables import tenant_tables
from agentjobs.cli.repos import purge
from agentjobs.fleet.repositories_directory import MARKER
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.leases import cancel_requests
from agentjobs.jobs.queue.start import start_job
from agentjobs.local_git import repositories
from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.organizations import (
    create_organization,
    ensure_default,
    find_organization,
)
from agentjobs.organizations.pauses import find_pause
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs.store.tenant_rows import TenantTable
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import Cancelled
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.jobs import JobHarness
from tests.support.repo_rows import SELECT
from tests.support.users import write

PLANS = Plans(DEFAULT_PLANS)
SECRET = "s3cret"
# Which table's identifier a column holds.
REFERENCES = {
    "organization_id": "organizations",
    "repo_id": "repos",
    "job_id": "jobs",
    "user_id": "users",
    "connection_id": "platform_connections",
    "endpoint_id": "webhook_endpoints",
    "delivery_id": "deliveries",
}
# Rows that are found by something else than an identifier.
OTHER_VALUES = {
    ("leases", "name"): "repository:{repos}",
    ("platform_outages", "key"): "{platform_connections}",
}

# The log of the service records who deleted an organization.
LEFT = {"audit_log": 2}

Dump = dict[str, list[dict[str, Any]]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / MARKER).write_text("this deployment\n")
    return Settings(data_dir=str(tmp_path))


@pytest.fixture
async def filled(database: Database) -> Database:
    """Two organizations with a row in every table, and a user who is a member of both."""
    await ensure_default(database, PLANS)
    for name in ("doomed", "bystander"):
        await fill(database, name)
    await database.transact(_add_shared_user)
    return database


async def fill(db: Database, name: str) -> None:
    organization = await create_organization(db, PLANS, name, "free")
    ids = {table.name: f"{table.name}-{name}" for table in tenant_tables().all}
    ids["organizations"] = organization.id
    for table in reversed(parents_last()):
        if table.name != "organizations":
            row = {
                column: value_of(table, column, kind, name, ids)
                for column, kind in (await columns_of(db, table.name)).items()
            }
            await db.transact(_insert, table.name, row)


def parents_last() -> list[TenantTable]:
    """Deletion's order, but users after the rows that reference them."""
    tables = tenant_tables().all
    users = [table for table in tables if table.name == "users"]
    rest = [table for table in tables if table.name not in {"users", "organizations"}]
    return [*rest, *users, *(table for table in tables if table.name == "organizations")]


def value_of(table: TenantTable, column: str, kind: str, name: str, ids: dict[str, str]) -> Any:
    if (table.name, column) in OTHER_VALUES:
        return OTHER_VALUES[table.name, column].format(**ids)
    if column == "id":
        return ids[table.name]
    if column in REFERENCES:
        return ids[REFERENCES[column]]
    text = f"{SECRET}-{name}" if column in table.unexported else f"{name}-{column}"
    return {"text": text, "bytes": text.encode(), "number": 1, "flag": False}[kind]


async def _insert(tx: Transaction, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    await tx.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", **row)


async def _add_shared_user(tx: Transaction) -> None:
    await tx.execute(
        "INSERT INTO users (id, email, name, created_at) VALUES ('shared', 'shared', 'shared', 1)"
    )
    await tx.execute(
        "INSERT INTO memberships (organization_id, user_id, role, created_at)"
        " SELECT id, 'shared', 'member', 1 FROM organizations WHERE name IN ('doomed', 'bystander')"
    )


async def _move_to_platform(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET platform = 'github'")


async def table_names(db: Database) -> list[str]:
    rows = await db.fetch_all(
        "/*sqlite SELECT name FROM sqlite_master WHERE type = 'table' */"
        "/*postgresql SELECT table_name AS name FROM information_schema.tables"
        " WHERE table_schema = current_schema() */"
    )
    return [row["name"] for row in rows if not row["name"].startswith(("sqlite_", "alembic_"))]


async def columns_of(db: Database, table: str) -> dict[str, str]:
    rows = await db.fetch_all(
        "/*sqlite SELECT name, type FROM pragma_table_info(:table) */"
        "/*postgresql SELECT column_name AS name, data_type AS type"
        " FROM information_schema.columns WHERE table_name = :table"
        " AND table_schema = current_schema() */",
        table=table,
    )
    return {row["name"]: _kind(row["type"].lower()) for row in rows}


def _kind(sql_type: str) -> str:
    kinds = {"text": "text", "blob": "bytes", "bytea": "bytes", "boolean": "flag"}
    return kinds.get(sql_type, "number")


async def dump(db: Database) -> Dump:
    tables: Dump = {}
    for name in await table_names(db):
        key = ", ".join(await columns_of(db, name))
        rows = await db.fetch_all(f"SELECT * FROM {name} ORDER BY {key}")
        tables[name] = [
            {
                column: bytes(v) if isinstance(v, memoryview) else v
                for column, v in dict(row).items()
            }
            for row in rows
        ]
    return tables


def rows_with(tables: Dump, *texts: str) -> dict[str, int]:
    """How many rows of each table contain one of the texts."""

    def contains(value: Any) -> bool:
        if isinstance(value, bytes):
            return any(text.encode() in value for text in texts)
        return isinstance(value, str) and any(text in value for text in texts)

    counts = {
        table: sum(any(map(contains, row.values())) for row in rows)
        for table, rows in tables.items()
    }
    return {table: count for table, count in counts.items() if count}


async def test_nothing_of_a_deleted_organization_is_left(
    filled: Database, settings: Settings
) -> None:
    doomed = await find_organization(filled, "doomed")
    before = await dump(filled)
    tenant = {table.name for table in tenant_tables().all}
    assert set(rows_with(before, "doomed", doomed.id)) == tenant

    deleted = await delete_organization(filled, settings, "doomed")

    after = await dump(filled)
    assert rows_with(after, "doomed", doomed.id) == LEFT
    assert sum(deleted.values()) > 0
    bystander = await find_organization(filled, "bystander")
    remaining = rows_with(before, "bystander", bystander.id)
    assert rows_with(after, "bystander", bystander.id) == remaining
    assert set(remaining) == tenant
    assert {row["id"] for row in after["users"]} == {"shared", "users-bystander"}
    with pytest.raises(Problem, match="no organization 'doomed'"):
        await delete_organization(filled, settings, "doomed")


async def test_the_log_of_the_service_records_who_deleted_an_organization(
    filled: Database, settings: Settings
) -> None:
    doomed = await find_organization(filled, "doomed")
    with acting_as(Actor("operator", "root@host")):
        deleted = await delete_organization(filled, settings, "doomed")
    default = await find_organization(filled, "default")
    ended, started = await list_entries(filled, default.id, AuditFilter(actor="root@host"), limit=9)
    assert (started.action, ended.action) == (
        "organization.deletion_started",
        "organization.deleted",
    )
    assert started.target == ended.target == "doomed"
    assert ended.details == {"organization_id": doomed.id, "rows": sum(deleted.values())}


async def test_an_interrupted_deletion_is_recorded(
    filled: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(deletion, "close_organization", fail)
    with pytest.raises(StoreUnavailable):
        await delete_organization(filled, settings, "doomed")
    default = await find_organization(filled, "default")
    entries = await list_entries(filled, default.id, AuditFilter(action="organization"), limit=9)
    assert entries[0].action == "organization.deletion_started"


async def test_an_export_has_every_row_of_the_organization_and_no_secret(
    filled: Database, settings: Settings, tmp_path: Path
) -> None:
    target = tmp_path / "doomed.zip"
    exported = await export_organization(filled, settings, "doomed", target)
    assert target.stat().st_mode & 0o777 == 0o600
    with ZipFile(target) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    document = msgspec.json.decode(texts["export.json"])
    assert (document["organization"], document["tables"]) == ("doomed", exported.tables)
    for table in tenant_tables().all:
        lines = texts[f"tables/{table.name}.jsonl"].splitlines()
        assert len(lines) == exported.tables[table.name] >= 1, table.name
        assert all(name not in msgspec.json.decode(lines[0]) for name in table.unexported)
    every = b"".join(texts.values())
    assert SECRET.encode() not in every
    assert b"bystander" not in every
    with pytest.raises(Problem, match="already exists"):
        await export_organization(filled, settings, "doomed", target)


async def test_an_organization_is_not_deleted_where_its_repositories_are_not(
    filled: Database, tmp_path: Path
) -> None:
    """Copies of repositories on platforms are in the same directory."""
    await filled.transact(_move_to_platform)
    before = await dump(filled)
    elsewhere = Settings(data_dir=str(tmp_path), repositories_dir=str(tmp_path / "elsewhere"))
    with pytest.raises(Problem, match="AGENTJOBS_REPOSITORIES_DIR"):
        await delete_organization(filled, elsewhere, "doomed")
    assert await dump(filled) == before


async def test_a_sync_cannot_leave_files_of_a_deleted_organization(
    filled: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "git" / "repos-doomed.git"
    copy.mkdir()
    await write(filled, f"UPDATE sync_queue SET lease_until = {2**53}")
    await write(filled, "UPDATE repos SET disconnected_at = NULL")
    monkeypatch.setattr(purge, "_STOP_SECONDS", 0.0)
    with pytest.raises(Problem, match="Run the command again"):
        await delete_organization(filled, settings, "doomed")
    assert copy.exists()
    (row,) = await filled.fetch_all(f"{SELECT} WHERE r.id = 'repos-doomed'")
    assert (row["sync_due_at"], row["index_due_at"]) == (None, None)
    assert row["disconnected_at"] is not None

    await write(filled, "UPDATE sync_queue SET lease_until = NULL")
    await delete_organization(filled, settings, "doomed")
    assert not copy.exists()
    assert rows_with(await dump(filled), "doomed") == {"audit_log": 3}


async def test_an_organization_whose_files_cannot_be_removed_is_not_deleted(
    filled: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "git" / "repos-doomed.git"
    copy.mkdir()
    # Root can remove everything.
    monkeypatch.setattr(repositories, "remove_repository", lambda *_: None)
    with pytest.raises(Problem, match="Run the command as the user") as raised:
        await delete_organization(filled, settings, "doomed")
    assert str(copy) in raised.value.message
    assert (await find_organization(filled, "doomed")).name == "doomed"


async def test_pages_are_read_and_deleted_completely(
    harness: JobHarness, settings: Settings, tmp_path: Path
) -> None:
    caller = await harness.organization("many")
    # Repositories of platforms have no files that are exported.
    await harness.db.transact(_move_to_platform)
    ids = [await harness.job(caller) for _ in range(250)]
    exported = await export_organization(harness.db, settings, "many", tmp_path / "many.zip")
    assert (exported.tables["jobs"], exported.tables["events"]) == (250, 250)
    with ZipFile(tmp_path / "many.zip") as archive:
        lines = archive.read("tables/jobs.jsonl").splitlines()
    assert sorted(msgspec.json.decode(line)["id"] for line in lines) == sorted(ids)
    deleted = await delete_organization(harness.db, settings, "many")
    assert (deleted["jobs"], deleted["events"]) == (250, 250)


async def test_the_default_organization_cannot_be_deleted(
    filled: Database, settings: Settings
) -> None:
    before = await dump(filled)
    with pytest.raises(Problem, match="cannot be deleted"):
        await delete_organization(filled, settings, "default", force=True)
    assert await dump(filled) == before


async def test_running_jobs_are_refused_or_cancelled(
    harness: JobHarness, settings: Settings
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    job = await harness.claim()
    await start_job(harness.db, job, "1" * 40)
    with pytest.raises(Problem, match="1 jobs of acme are running"):
        await delete_organization(harness.db, settings, "acme")
    assert await find_pause(harness.db, caller.organization_id) is None

    async def work_until_cancelled() -> None:
        with harness.db.changes.listen("cancel") as signal:
            while job.claim not in await cancel_requests(harness.db, "wrk_a"):
                await signal.wait(1)
        assert await finish_job(harness.db, job, Cancelled())

    deletion = delete_organization(harness.db, settings, "acme", force=True)
    deleted, _ = await asyncio.gather(deletion, work_until_cancelled())
    assert deleted["jobs"] == 1


async def test_a_job_of_a_worker_that_is_gone_does_not_prevent_deletion(
    harness: JobHarness, settings: Settings
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    await harness.claim()
    await harness.expire_leases()
    assert (await delete_organization(harness.db, settings, "acme"))["jobs"] == 1


async def test_deletion_waits_for_webhooks_that_are_being_sent(
    filled: Database, settings: Settings
) -> None:
    await write(filled, "UPDATE webhook_endpoints SET removed_at = NULL")
    await write(filled, f"UPDATE deliveries SET lease_expires_at = {2**53}")

    async def send() -> None:
        query = "SELECT removed_at FROM webhook_endpoints WHERE id = 'webhook_endpoints-doomed'"
        while (await filled.fetch_all(query))[0]["removed_at"] is None:
            pass
        # The attempt that is recorded last.
        await write(filled, "UPDATE delivery_attempts SET delivery_id = 'deliveries-doomed'")
        await write(filled, "UPDATE deliveries SET lease_expires_at = 1")

    await write(filled, "DELETE FROM delivery_attempts WHERE delivery_id = 'deliveries-doomed'")
    await asyncio.gather(delete_organization(filled, settings, "doomed"), send())
    assert rows_with(await dump(filled), "doomed") == LEFT
