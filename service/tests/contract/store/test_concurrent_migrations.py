"""Migrations of PostgreSQL beside a running service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from agentjobs.store import migrate, revisions
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.migrate import migrate_postgresql

_HEADER = """
import sqlalchemy as sa
from alembic import op
from agentjobs.store.migrations.indexes import create_index

revision = "{revision}"
down_revision = "{down_revision}"
branch_labels = None
depends_on = None


def upgrade() -> None:
"""


class Migrations:
    """A copy of the migrations, to which a test adds."""

    def __init__(self, directory: Path) -> None:
        self._versions = directory / "versions"
        self._versions.mkdir(parents=True)
        for source in (revisions.MIGRATIONS / "versions").glob("[0-9]*_*.py"):
            (self._versions / source.name).write_text(source.read_text())
        (directory / "env.py").write_text((revisions.MIGRATIONS / "env.py").read_text())

    def add(self, *lines: str) -> str:
        last = revisions.known_revisions()[-1]
        revision = f"{int(last) + 1:04}"
        text = _HEADER.format(revision=revision, down_revision=last)
        text += "".join(f"    {line}\n" for line in lines)
        (self._versions / f"{revision}_added.py").write_text(text)
        return revision


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migrations:
    migrations = Migrations(tmp_path / "migrations")
    monkeypatch.setattr(revisions, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "migrations")
    return migrations


@pytest.fixture
async def client(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    client = await asyncpg.connect(postgres_url)
    yield client
    await client.close()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_LOCK_TIMEOUT_MS", 100)
    monkeypatch.setattr(migrate, "_LOCK_PAUSE_SECONDS", 0.05)


async def test_an_index_is_created_while_others_write(
    postgres_url: str, migrations: Migrations, client: asyncpg.Connection
) -> None:
    migrations.add(
        'create_index("jobs_test", "jobs", ["created_at DESC", "id"], where="attempt > 0")'
    )
    writing = client.transaction()
    await writing.start()
    await client.execute("LOCK TABLE jobs IN ROW EXCLUSIVE MODE")

    # A plain CREATE INDEX would give up; this one waits until the writer has finished.
    migrating = asyncio.create_task(migrate_postgresql(postgres_url))
    other = await asyncpg.connect(postgres_url)
    while not await other.fetchval("SELECT 1 FROM pg_stat_progress_create_index"):
        assert not migrating.done()
    await other.execute("UPDATE jobs SET attempt = attempt")
    await writing.commit()
    await migrating

    assert await other.fetchval(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'jobs_test'::regclass"
    )
    await other.close()


async def test_an_index_that_was_interrupted_is_created_again(
    postgres_url: str, migrations: Migrations, client: asyncpg.Connection
) -> None:
    await client.execute(
        "INSERT INTO organizations (id, name, plan, created_at)"
        " VALUES ('a', 'a', 'free', 0), ('b', 'b', 'free', 0)"
    )
    revision = migrations.add('create_index("organizations_test", "organizations", ["created_at"])')
    with pytest.raises(asyncpg.UniqueViolationError):
        await client.execute(
            "CREATE UNIQUE INDEX CONCURRENTLY organizations_test ON organizations (created_at)"
        )

    await migrate_postgresql(postgres_url)
    await migrate_postgresql(postgres_url)

    assert await client.fetchval(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'organizations_test'::regclass"
    )
    assert await client.fetchval("SELECT version_num FROM alembic_version") == revision


async def test_processes_that_migrate_together_create_an_index_once(
    postgres_url: str, migrations: Migrations
) -> None:
    migrations.add('create_index("jobs_test", "jobs", ["attempt"])')
    await asyncio.gather(*(migrate_postgresql(postgres_url) for _ in range(3)))


async def test_a_migration_lets_others_use_a_table_that_it_cannot_lock(
    postgres_url: str,
    migrations: Migrations,
    client: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    migrations.add('op.add_column("jobs", sa.Column("test", sa.Text))')
    reading = client.transaction()
    await reading.start()
    await client.execute("SELECT 1 FROM jobs")

    migrating = asyncio.create_task(migrate_postgresql(postgres_url))
    while "a migration waits for a table" not in caplog.text:
        assert not migrating.done()
        await asyncio.sleep(0.01)
    other = await asyncpg.connect(postgres_url)
    await other.execute("SELECT 1 FROM jobs")
    await reading.commit()
    await migrating
    assert await other.fetch("SELECT test FROM jobs") == []
    await other.close()


async def test_a_migration_that_never_gets_its_lock_says_what_to_do(
    postgres_url: str,
    migrations: Migrations,
    client: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migrate, "_LOCK_ATTEMPTS", 2)
    migrations.add('op.add_column("jobs", sa.Column("test", sa.Text))')
    async with client.transaction():
        await client.execute("SELECT 1 FROM jobs")
        with pytest.raises(StoreUnavailable, match="agentjobs migrate"):
            await migrate_postgresql(postgres_url)
