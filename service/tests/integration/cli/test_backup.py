"""Backups are complete and restorable and do not contain the encryption key."""

import asyncio
import shutil
import subprocess

import pytest

from agentjobs.cli.backup.repository_copy import copy_repository
from agentjobs.store import backup as store_backup
from agentjobs.store.backup import POSTGRESQL_COPY
from agentjobs.store.database import StoreError
from tests.support.cli_process import make_repository
from tests.support.in_process_cli import InProcessCommandLine


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(capsys, tmp_path / "data")


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "shop", {"app.py": "import os\n"})


def test_a_backup_is_a_data_directory_that_works(tmp_path, agentjobs, repository, capsys):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    (agentjobs.data_dir / "agentjobs.toml").write_text("queue_limit = 7\n")
    target = tmp_path / "backup"

    backup = agentjobs("backup", str(target))
    assert (backup.exit_code, backup.out) == (0, f"{target}\n")
    assert "encryption key" in backup.err

    restored = InProcessCommandLine(capsys, target)
    (repo,) = restored("repos", "list", "--json").document["repos"]
    assert repo["full_name"] == "acme/shop"
    (copy,) = (target / "git").glob("*.git")
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


def test_a_dangling_link_is_no_place_for_a_backup(tmp_path, agentjobs):
    (tmp_path / "backup").symlink_to(tmp_path / "nowhere")
    assert "already exists" in agentjobs("backup", str(tmp_path / "backup")).err


def test_a_backup_is_not_put_among_the_repositories(agentjobs):
    """The next backup would take it for a repository."""
    refused = agentjobs("backup", str(agentjobs.data_dir / "git" / "backup"))
    assert refused.exit_code == 2
    assert "is among the repositories" in refused.err


def test_a_backup_of_nothing_is_refused_and_leaves_nothing(tmp_path, capsys):
    refused = InProcessCommandLine(capsys, tmp_path / "data")("backup", str(tmp_path / "backup"))
    assert refused.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == []


def test_postgresql_is_dumped_by_its_own_program(tmp_path, postgres_url, capsys):
    agentjobs = InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=postgres_url)
    target = tmp_path / "backup"
    assert agentjobs("backup", str(target)).exit_code == 0
    assert (target / POSTGRESQL_COPY).read_bytes().startswith(b"PGDMP")


def test_a_host_without_the_repositories_makes_no_backup(
    tmp_path, postgres_url, repository, capsys
):
    server = InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=postgres_url)
    server("repos", "connect", str(repository), "--name", "acme/shop")
    elsewhere = InProcessCommandLine(capsys, tmp_path / "else", AGENTJOBS_DATABASE_URL=postgres_url)
    refused = elsewhere("backup", str(tmp_path / "backup"))
    assert (refused.exit_code, refused.out) == (2, "")
    assert "acme/shop" in refused.err
    assert "host of `agentjobs serve`" in refused.err
    assert not (tmp_path / "backup").exists()

    server("repos", "disconnect", "acme/shop")
    assert elsewhere("backup", str(tmp_path / "backup")).exit_code == 0


def test_a_damaged_repository_makes_no_backup(tmp_path, agentjobs, repository):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    (kept,) = (agentjobs.data_dir / "git").glob("*.git")
    for pack in (kept / "objects" / "pack").iterdir():
        pack.unlink()
    for loose in (kept / "objects").glob("??/*"):
        loose.unlink()
    refused = agentjobs("backup", str(tmp_path / "backup"))
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert "is incomplete" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "shop"]


@pytest.fixture
def packed(tmp_path, repository):
    """A bare repository whose objects are in several packs."""
    bare = tmp_path / "packed.git"
    for number in range(4):
        (repository / "app.py").write_text(f"x = {number}\n")
        git(repository, "-c", "user.name=T", "-c", "user.email=t@x", "commit", "-qam", "More")
        git(repository, "repack", "-q", "-d")
    git(repository, "clone", "-q", "--bare", "--no-local", str(repository), str(bare))
    shutil.rmtree(bare / "objects")
    shutil.copytree(repository / ".git" / "objects", bare / "objects")
    assert len(list((bare / "objects" / "pack").glob("*.pack"))) == 4
    return bare


async def test_packs_that_git_puts_together_meanwhile_are_not_lost(tmp_path, packed):
    async def put_together():
        for _ in range(5):
            await asyncio.to_thread(git, packed, "gc", "-q", "--prune=now")

    await asyncio.gather(put_together(), copy_repository(packed, tmp_path / "copy"))
    assert git(tmp_path / "copy", "log", "--oneline", "main") == git(
        packed, "log", "--oneline", "main"
    )
    assert git(tmp_path / "copy", "fsck", "--full") is not None


async def test_every_ref_is_copied_and_nothing_of_the_place_that_it_came_from(tmp_path, packed):
    git(packed, "update-ref", "refs/agentjobs/pulls/1", "main~1")
    git(packed, "symbolic-ref", "HEAD", "refs/heads/later")
    copy = tmp_path / "copy"
    await copy_repository(packed, copy)
    assert git(copy, "show-ref") == git(packed, "show-ref")
    assert git(copy, "symbolic-ref", "HEAD") == "refs/heads/later\n"
    assert str(packed) not in (copy / "config").read_text()


async def test_what_is_unfinished_is_not_copied_and_branches_with_odd_names_are(tmp_path, packed):
    for name in ("HEAD.lock", "refs/heads/main.lock", "packed-refs.lock", "gc.pid"):
        (packed / name).write_text("")
    for name in ("pack/tmp_pack_1", "pack/multi-pack-index.lock", "pack/pack-1.idx.lock"):
        (packed / "objects" / name).write_text("")
    for name in ("tmp_objdir-incoming-1", "incoming-2"):
        (packed / "objects" / name).mkdir()
    git(packed, "update-ref", "refs/heads/tmp_work", "main")
    git(packed, "update-ref", "refs/heads/incoming-work", "main")
    copy = tmp_path / "copy"

    await copy_repository(packed, copy)

    left = [path.name for path in copy.rglob("*") if path.match("*.lock") or path.match("gc.pid")]
    left += [path.name for path in (copy / "objects").rglob("*") if "tmp_" in path.name]
    assert left + list((copy / "objects").glob("incoming-*")) == []
    assert git(copy, "branch", "--format=%(refname:short)").split() == [
        *("incoming-work", "main", "tmp_work")
    ]


async def test_a_copy_that_misses_an_object_is_refused(tmp_path, packed):
    blob = git(packed, "rev-parse", "main:app.py").strip()
    unpack(packed, tmp_path / "packs")
    (packed / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(StoreError, match="is incomplete"):
        await copy_repository(packed, tmp_path / "copy")


def unpack(repository, packs):
    """Unpacks every object into its own file."""
    (repository / "objects" / "pack").rename(packs)
    command = ["git", "unpack-objects", "-q"]
    for pack in packs.glob("*.pack"):
        with pack.open("rb") as stream:
            subprocess.run(command, cwd=repository, stdin=stream, check=True)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://agentjobs:hush-hush@127.0.0.1:{port}/{name}",
        "postgresql://127.0.0.1:{port}/{name}?user=agentjobs&password=hush-hush",
        "postgresql:///{name}?host=127.0.0.1&port={port}&user=agentjobs&pass%77ord=hush-hush",
    ],
)
def test_a_password_is_on_no_command_line(
    tmp_path, postgres_url, postgres_cluster, monkeypatch, address
):
    """A wrapper records its arguments and password, then runs pg_dump."""
    spy = tmp_path / "pg_dump"
    record = tmp_path / "told"
    spy.write_text(
        f'#!/bin/sh\necho "$@" > {record}\necho "$PGPASSWORD" >> {record}\n'
        f'exec {store_backup.find_program("pg_dump")} "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setattr(store_backup, "find_program", lambda _: str(spy))
    url = address.format(port=postgres_cluster.port, name=postgres_url.rpartition("/")[2])

    store_backup.copy_database(url, tmp_path)

    arguments, password = record.read_text().splitlines()
    assert "hush" not in arguments
    assert password == "hush-hush"
    assert (tmp_path / POSTGRESQL_COPY).read_bytes().startswith(b"PGDMP")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql:///db?user=u&sslpassword=hush", "sslpassword"),
        ("postgresql://u:hu/sh@host/db", "percent-encode the password"),
        ("postgresql://u:hu#sh@host/db", "percent-encode the password"),
        ("postgresql://u:hu@sh@host/db", "percent-encode the password"),
        ("postgresql://[u:hush@host/db", "percent-encode the password"),
    ],
)
def test_an_address_that_would_show_a_password_is_refused(tmp_path, address, reason):
    with pytest.raises(StoreError, match=reason) as refused:
        store_backup.copy_database(address, tmp_path)
    assert "hu" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def git(directory, *arguments):
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
