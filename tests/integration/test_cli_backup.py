"""Backups of a store: complete, restorable, and without the key that protects what is in it."""

import shutil
import subprocess

import pytest

from agentjobs.store.backup import POSTGRESQL_COPY
from tests.cli_process import CommandLineInside, make_repository


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return CommandLineInside(capsys, tmp_path / "data")


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "shop", {"app.py": "import os\n"})


def test_a_backup_is_a_data_directory_that_works(tmp_path, agentjobs, repository, capsys):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    (agentjobs.data_dir / "agentjobs.toml").write_text("queue_limit = 7\n")
    target = tmp_path / "backup"

    made = agentjobs("backup", str(target))
    assert (made.exit_code, made.out) == (0, f"{target}\n")
    assert "encryption key" in made.err

    restored = CommandLineInside(capsys, target)
    (repo,) = restored("repos", "list", "--json").document["repos"]
    assert repo["full_name"] == "acme/shop"
    (copy,) = (target / "git").iterdir()
    assert git(copy, "fsck", "--strict") is not None
    assert git(copy, "rev-parse", "main") == git(repository, "rev-parse", "main")
    assert (target / "agentjobs.toml").read_text() == "queue_limit = 7\n"
    assert target.stat().st_mode & 0o777 == 0o700


def test_nothing_is_ever_written_over(tmp_path, agentjobs):
    target = tmp_path / "backup"
    target.mkdir()
    refused = agentjobs("backup", str(target))
    assert refused.exit_code == 2
    assert refused.err.count("\n") == 1
    assert list(target.iterdir()) == []


def test_a_backup_of_nothing_is_refused_and_leaves_nothing(tmp_path, capsys):
    refused = CommandLineInside(capsys, tmp_path / "data")("backup", str(tmp_path / "backup"))
    assert refused.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == []


def test_postgresql_is_dumped_by_its_own_program(tmp_path, postgres_url, capsys):
    agentjobs = CommandLineInside(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=postgres_url)
    target = tmp_path / "backup"
    assert agentjobs("backup", str(target)).exit_code == 0
    assert (target / POSTGRESQL_COPY).read_bytes().startswith(b"PGDMP")


def git(directory, *arguments):
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
