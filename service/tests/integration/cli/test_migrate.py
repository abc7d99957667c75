"""`agentjobs migrate` alone migrates a store; other commands say that it is due."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from agentjobs.store.revisions import known_revisions
from tests.support import version_0_2
from tests.support.in_process_cli import InProcessCommandLine

LATEST = known_revisions()[-1]


@pytest.fixture
def agentjobs(tmp_path, capsys):
    return InProcessCommandLine(capsys, tmp_path / "data")


@pytest.fixture
def earlier(agentjobs):
    agentjobs.data_dir.mkdir()
    asyncio.run(version_0_2.create(f"sqlite:///{agentjobs.data_dir / 'agentjobs.db'}"))
    return agentjobs


def revision(agentjobs):
    with closing(sqlite3.connect(agentjobs.data_dir / "agentjobs.db")) as database:
        return database.execute("SELECT version_num FROM alembic_version").fetchone()[0]


@pytest.mark.parametrize("command", [("keys", "create"), ("pause",), ("users", "list")])
def test_an_administrative_command_does_not_migrate(earlier, command):
    refused = earlier(*command)
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err == (
        "agentjobs: the database has the schema of agentjobs 0.2, but this program needs schema"
        f" {LATEST}; stop all processes of the service, make a backup with agentjobs 0.2.0, and run"
        " `agentjobs migrate`\n"
    )
    assert revision(earlier) == "0039"


def test_migrate_shows_its_steps(earlier):
    migrated = earlier("migrate")
    assert migrated.exit_code == 0
    lines = migrated.err.splitlines()
    assert lines[0] == f"migrating from schema 0039 to schema {LATEST}"
    assert lines[-1] == f"The sqlite database has the current schema, {LATEST}."
    assert revision(earlier) == LATEST
    again = earlier("migrate")
    assert again.err == lines[-1] + "\n"


def test_migrate_answers_with_json(earlier):
    assert earlier("migrate", "--json").document == {
        "engine": "sqlite",
        "previous_revision": "0039",
        "revision": LATEST,
        "current": True,
    }


def test_the_first_command_creates_a_store(agentjobs):
    created = agentjobs("keys", "list")
    assert created.exit_code == 0
    assert "Created a new store" in created.err
    assert revision(agentjobs) == LATEST


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[[agents]]\nid = "mine"\nname = "Mine"\ncommand = []\n', "agents[0].command"),
        ('[[prices]]\nmodel = "m"\ninput = -1\noutput = 1\n', "prices[0].input"),
        ('trusted_proxies = ["ingress"]\n', "AGENTJOBS_TRUSTED_PROXIES takes addresses"),
        ('egress_allow = ["intranet"]\n', "AGENTJOBS_EGRESS_ALLOW: "),
        ('webhooks_allow = ["intranet"]\n', "AGENTJOBS_WEBHOOKS_ALLOW: "),
        ('setup_network = ["https://pypi.org"]\n', "setup_network: "),
    ],
)
def test_settings_with_which_no_service_starts_stop_a_migration(earlier, text, error):
    (earlier.data_dir / "agentjobs.toml").write_text(text)
    refused = earlier("migrate")
    assert refused.exit_code == 2
    assert error in refused.err
    assert revision(earlier) == "0039"


def test_a_failed_migration_is_one_line(earlier):
    with closing(sqlite3.connect(earlier.data_dir / "agentjobs.db")) as database:
        database.execute("CREATE TABLE platform_hints (id TEXT)")
    failed = earlier("migrate")
    assert failed.exit_code == 2
    assert failed.err.splitlines()[-1] == (
        "agentjobs: the database refused a statement: table platform_hints already exists (no"
        " migration is half applied; when the cause is removed, run `agentjobs migrate` again)"
    )
    assert "Traceback" not in failed.err


def test_doctor_names_what_the_schema_lacks_and_migrate_adds_it(agentjobs, sqlite_template):
    agentjobs.data_dir.mkdir()
    path = agentjobs.data_dir / "agentjobs.db"
    shutil.copy(sqlite_template, path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP INDEX job_queue_leased")
    assert store_findings(agentjobs) == [
        ("problem", "the index job_queue_leased is missing; run `agentjobs migrate`, which adds it")
    ]
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE jobs DROP COLUMN lost_workers")
    remedy = "the column jobs.lost_workers is missing; run `agentjobs migrate`, which adds it"
    assert store_findings(agentjobs) == [("problem", f"the database is damaged: {remedy}")]
    refused = agentjobs("keys", "list")
    assert refused.err == f"agentjobs: the database is damaged: {remedy}\n"
    assert "the column jobs.lost_workers is missing: added it" in agentjobs("migrate").err
    assert store_findings(agentjobs) == [("ok", "sqlite, schema current")]


def store_findings(agentjobs):
    findings = json.loads(agentjobs("doctor", "--json").out)["findings"]
    return [(each["state"], each["message"]) for each in findings if each["subject"] == "store"]
