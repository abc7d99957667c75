"""`agentjobs restore` brings back what `agentjobs backup` wrote, and starts nothing on its own."""

import asyncio
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentjobs.cli.backup import target
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.pauses import resume
from agentjobs.store.opening import open_database
from agentjobs.store.revisions import known_revisions
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.settings import Settings
from tests.support import version_0_2
from tests.support.cli_process import make_repository
from tests.support.in_process_cli import InProcessCommandLine
from tests.support.jobs import job_harness
from tests.support.repo_rows import update_repos

ENDPOINT = "https://receiver.example/hook"


class Store:
    """A command line, and what it has stored."""

    def __init__(self, capsys, data_dir, url="", **settings):
        if url:
            settings["AGENTJOBS_DATABASE_URL"] = url
        self.agentjobs = InProcessCommandLine(capsys, data_dir, **settings)
        self.data_dir = data_dir
        self.url = url or f"sqlite:///{data_dir / 'agentjobs.db'}"

    def run(self, operation):
        async def work():
            db = await open_database(self.url, migrate=False)
            try:
                return await operation(db, job_harness(db, Settings(data_dir=str(self.data_dir))))
            finally:
                await db.close()

        return asyncio.run(work())

    def rows(self, sql):
        async def read(db, _):
            return [tuple(dict(row).values()) for row in await db.fetch_all(sql)]

        return self.run(read)

    def fill(self, repository):
        """A repository, an endpoint, a job that runs and one that waits, with their deliveries."""
        self.agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
        assert self.agentjobs("webhooks", "add", ENDPOINT).exit_code == 0
        return self.run(add_jobs)

    def restore(self, backup, *options):
        return self.agentjobs("restore", str(backup), "--json", *options)


async def add_jobs(db, harness):
    async def make_ready(tx):
        await update_repos(tx, "index_status = 'ready'")
        await tx.execute(
            "INSERT INTO workers (id, hostname, agents, slots, started_at, heartbeat_at)"
            " VALUES ('wrk_a', 'host', '[]', 1, 1, :now)",
            now=now_ms() - 60_000,
        )

    await db.transact(make_ready)
    key = (await create_key(db, "default")).key
    caller = await ApiKeyAuthenticator(db).authenticate(key)
    running = await harness.job(caller, repo="acme/shop")
    await start_job(db, await harness.claim(), "0" * 40)
    return running, await harness.job(caller, repo="acme/shop")


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "shop", {"app.py": "import os\n"})


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request):
    return request.param


@pytest.fixture
def store(request, engine, tmp_path, capsys):
    config = tmp_path / "elsewhere.toml"
    config.write_text("queue_limit = 7\n")
    if engine == "postgresql":
        url = request.getfixturevalue("postgres_url")
        return Store(capsys, tmp_path / "data", url, AGENTJOBS_CONFIG=str(config))
    (tmp_path / "data").mkdir()
    shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "data" / "agentjobs.db")
    return Store(capsys, tmp_path / "data", AGENTJOBS_CONFIG=str(config))


@pytest.fixture
def other(request, engine, tmp_path, capsys):
    """An empty store on another machine."""
    if engine == "sqlite":
        yield Store(capsys, tmp_path / "other")
        return
    cluster = request.getfixturevalue("postgres_cluster")
    name = cluster.create_database()
    yield Store(capsys, tmp_path / "other", cluster.url(name))
    cluster.drop_database(name)


def test_a_restored_store_is_complete_and_runs_nothing_until_resumed(
    store, other, repository, tmp_path
):
    running, queued = store.fill(repository)
    backup = tmp_path / "backup"
    assert store.agentjobs("backup", str(backup)).exit_code == 0
    (key_id,) = json.loads((backup / "backup.json").read_text())["encryption_key_ids"]

    refused = other.restore(backup)
    assert (refused.exit_code, refused.out) == (2, "")
    assert key_id in refused.err
    assert "encryption.key" in refused.err
    assert not other.data_dir.exists()

    other.data_dir.mkdir(mode=0o700)
    shutil.copy(store.data_dir / "encryption.key", other.data_dir)
    restored = other.restore(backup).document
    assert restored["revision"] == known_revisions()[-1]
    assert (restored["queued_jobs"], restored["running_jobs"]) == (1, 1)
    assert restored["held_deliveries"] == 3
    assert restored["repositories"] == 1
    assert restored["settings_file"] == "restored"
    assert (other.data_dir / "agentjobs.toml").read_text() == "queue_limit = 7\n"
    assert other.agentjobs("repos", "list", "--json").document["repos"][0]["full_name"]
    assert list((other.data_dir / "git").glob("*.git/HEAD"))
    assert not (other.data_dir / "git" / ".restoring").exists()
    assert other.rows("SELECT DISTINCT status FROM deliveries") == [("failed",)]
    assert ("service.restored",) in other.rows("SELECT action FROM audit_log")
    other.run(lambda db, harness: check_that_nothing_starts(db, harness, running, queued))


def test_a_link_that_was_used_after_the_backup_does_not_work_again(store, other, tmp_path):
    store.agentjobs("users", "add", "ada@example.com")
    links = [
        store.agentjobs("users", verb, "ada@example.com").out.strip()
        for verb in ("reset-link", "sign-in-link")
    ]
    assert all("?token=" in link for link in links)
    assert store.agentjobs("backup", str(tmp_path / "backup")).exit_code == 0
    assert other.restore(tmp_path / "backup", "--without-key").exit_code == 0
    assert other.rows("SELECT email FROM users WHERE email LIKE 'ada@%'") == [("ada@example.com",)]
    assert other.rows("SELECT hash FROM sign_in_links") == []


async def check_that_nothing_starts(db, harness, running, queued):
    assert await rescue_lost_jobs(db, harness.context.settings) == [running]
    rows = await db.fetch_all(
        "SELECT j.id, j.status FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.lease_owner IS NULL ORDER BY j.id"
    )
    assert [(row["id"], row["status"]) for row in rows] == [(running, "queued"), (queued, "queued")]
    assert await harness.nothing_to_claim()
    (lost,) = await db.fetch_all("SELECT was_alive FROM lost_claims")
    assert lost["was_alive"], "the restore spends no attempt"
    assert await resume(db)
    assert await harness.claim()


def test_an_existing_store_is_moved_aside_only_on_request(store, repository, tmp_path, engine):
    store.fill(repository)
    backup = tmp_path / "backup"
    assert store.agentjobs("backup", str(backup)).exit_code == 0
    created = store.agentjobs("keys", "create", "--name", "later")
    assert created.exit_code == 0

    refused = store.restore(backup)
    assert (refused.exit_code, refused.err.count("\n")) == (2, 2)
    assert "--force" in refused.err
    restored = store.restore(backup, "--force").document
    assert store.rows("SELECT name FROM api_keys WHERE name = 'later'") == []
    first, second = restored["replaced"]
    if engine == "sqlite":
        with closing(sqlite3.connect(first)) as database:
            assert database.execute("SELECT 1 FROM api_keys WHERE name = 'later'").fetchone()
    else:
        schema = first.removeprefix("schema ")
        assert store.rows(f"SELECT name FROM {schema}.api_keys WHERE name = 'later'")
    assert list(Path(second).glob("*.git/HEAD"))
    assert store.rows("SELECT value FROM effective_settings WHERE name = 'paused_at'")
    # Once more, over the restored store.
    assert store.restore(backup, "--force").exit_code == 0


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_backup_of_0_2_is_refused_with_the_steps_that_restore_it(
    other, postgres_cluster, tmp_path, capsys
):
    name = postgres_cluster.create_database()
    earlier = Store(capsys, tmp_path / "data", postgres_cluster.url(name))
    asyncio.run(version_0_2.create(earlier.url, with_rows=False))
    backup = tmp_path / "backup"
    assert earlier.agentjobs("backup", str(backup)).exit_code == 0
    postgres_cluster.drop_database(name)
    refused = other.restore(backup)
    assert refused.exit_code == 2
    assert "restore it with agentjobs 0.2.0, then run `agentjobs migrate` of this" in refused.err


@pytest.fixture
def sqlite_store(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return Store(capsys, tmp_path / "data")


@pytest.fixture
def backup(sqlite_store, tmp_path):
    assert sqlite_store.agentjobs("backup", str(tmp_path / "backup")).exit_code == 0
    return tmp_path / "backup"


def replace_bytes(file, old, new):
    file.write_bytes(file.read_bytes().replace(old, new))


def set_revision(backup):
    (backup / "backup.json").unlink()
    with closing(sqlite3.connect(backup / "agentjobs.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9001'")


DAMAGES = {
    "is not a directory that `agentjobs backup` wrote": shutil.rmtree,
    "is not what the backup wrote": lambda backup: replace_bytes(
        backup / "agentjobs.db", b"organizations", b"organisations"
    ),
    "restore it with that version": lambda backup: replace_bytes(
        backup / "backup.json", b'"format": 1', b'"format": 2'
    ),
    "backup.json is damaged": lambda backup: (backup / "backup.json").write_text("{"),
    "this program supports up to": set_revision,
    "is damaged or no backup of agentjobs": lambda backup: (
        (backup / "backup.json").unlink(),
        (backup / "agentjobs.db").write_bytes(b"no database"),
    ),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_backup_that_cannot_be_restored_is_refused_and_changes_nothing(
    backup, tmp_path, capsys, reason
):
    DAMAGES[reason](backup)
    refused = Store(capsys, tmp_path / "other").restore(backup)
    assert (refused.exit_code, refused.out) == (2, "")
    assert reason in refused.err
    assert "Traceback" not in refused.err
    assert not (tmp_path / "other").exists()


def test_a_backup_without_its_repositories_is_not_restored(
    sqlite_store, repository, tmp_path, capsys
):
    sqlite_store.agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    backup = tmp_path / "backup"
    assert sqlite_store.agentjobs("backup", str(backup)).exit_code == 0
    (copied,) = (backup / "git").glob("*.git")
    shutil.rmtree(copied)
    refused = Store(capsys, tmp_path / "other").restore(backup)
    assert (refused.exit_code, refused.out) == (2, "")
    assert f"{copied} is missing; copy the whole backup here" in refused.err
    assert not (tmp_path / "other").exists()


def test_a_damaged_dump_leaves_the_database_as_it_was(
    postgres_url, postgres_cluster, tmp_path, capsys
):
    store = Store(capsys, tmp_path / "data", postgres_url)
    assert store.agentjobs("keys", "create", "--name", "kept").exit_code == 0
    backup = tmp_path / "backup"
    assert store.agentjobs("backup", str(backup)).exit_code == 0
    (backup / "backup.json").unlink()
    dump = backup / "postgresql.dump"
    dump.write_bytes(dump.read_bytes()[:-2000])
    refused = store.restore(backup, "--force")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "Traceback" not in refused.err
    assert store.rows("SELECT name FROM api_keys") == [("kept",)]


def test_a_store_in_use_is_not_replaced(backup, sqlite_store):
    with closing(sqlite3.connect(sqlite_store.data_dir / "agentjobs.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("SELECT * FROM jobs").fetchall()
        refused = sqlite_store.restore(backup, "--force")
    assert refused.exit_code == 2
    assert "stop the service first" in refused.err


def test_of_two_restores_at_once_the_second_fails(backup, tmp_path, capsys):
    other = Store(capsys, tmp_path / "other")
    other.data_dir.mkdir(mode=0o700)
    with target.exclusive_use(other.data_dir):
        refused = other.restore(backup)
    assert refused.exit_code == 2
    assert "another command is changing" in refused.err
    assert list(other.data_dir.iterdir()) == []
    assert other.restore(backup).exit_code == 0


def test_a_database_of_running_services_is_not_replaced(postgres_url, tmp_path, capsys):
    store = Store(capsys, tmp_path / "data", postgres_url)
    backup = tmp_path / "backup"
    assert store.agentjobs("backup", str(backup)).exit_code == 0

    async def beat(db, _):
        async def insert(tx):
            await tx.execute(
                "INSERT INTO workers (id, hostname, agents, slots, started_at, heartbeat_at)"
                " VALUES ('wrk_a', 'build-7', '[]', 1, 1, :now)",
                now=await tx.clock_ms(),
            )

        await db.transact(insert)

    store.run(beat)
    refused = store.restore(backup, "--force")
    assert refused.exit_code == 2
    assert "services on build-7 use this database; stop them all first" in refused.err


def test_the_engines_must_be_the_same(backup, tmp_path, capsys):
    url = "postgresql://nobody@127.0.0.1:9/none"
    refused = Store(capsys, tmp_path / "other", url).restore(backup)
    assert refused.exit_code == 2
    assert "cannot be restored into PostgreSQL" in refused.err


def test_a_disk_that_is_too_small_is_named(backup, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(target, "free_bytes", lambda _: 1024)
    refused = Store(capsys, tmp_path / "other").restore(backup)
    assert refused.exit_code == 2
    assert "has 0 MiB free, but the backup needs" in refused.err


def test_a_backup_is_not_restored_into_itself(backup, capsys):
    before = (backup / "agentjobs.db").read_bytes()
    refused = Store(capsys, backup).restore(backup, "--force")
    assert refused.exit_code == 2
    assert "is in the backup; choose another data directory" in refused.err
    assert (backup / "agentjobs.db").read_bytes() == before


def test_files_are_restored_by_the_user_who_owns_the_directory(
    backup, tmp_path, capsys, monkeypatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    refused = Store(capsys, tmp_path / "other").restore(backup)
    assert refused.exit_code == 2
    assert "run this as that user: sudo -u" in refused.err
    assert list((tmp_path / "other").iterdir()) == []


def test_the_settings_file_is_restored_where_it_is_expected(sqlite_store, tmp_path, capsys):
    (sqlite_store.data_dir / "agentjobs.toml").write_text('public_url = "https://old.example"\n')
    backup = tmp_path / "backup"
    assert sqlite_store.agentjobs("backup", str(backup)).exit_code == 0

    named = tmp_path / "named.toml"
    other = Store(capsys, tmp_path / "other", AGENTJOBS_CONFIG=str(named))
    restored = other.restore(backup).document
    assert restored["settings_file"] == "restored"
    assert restored["notes"] == [f"Check public_url in {named} if this is another machine."]
    named.write_text("queue_limit = 7\n")
    restored = other.restore(backup, "--force").document
    assert restored["settings_file"] == "kept"
    assert named.read_text() == "queue_limit = 7\n"
    (note,) = restored["notes"]
    assert note.startswith(f"{named} was kept")

    missing = tmp_path / "missing" / "named.toml"
    third = Store(capsys, tmp_path / "third", AGENTJOBS_CONFIG=str(missing))
    (note,) = third.restore(backup).document["notes"]
    assert note == f"Copy {backup / 'agentjobs.toml'} to {missing}: No such file or directory."
