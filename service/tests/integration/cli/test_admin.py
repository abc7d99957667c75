"""The administrative commands, without a running service."""

import resource
import shutil
import sqlite3
import subprocess
import sys
from datetime import datetime
from zipfile import ZipFile

import pytest

from agentjobs.organizations.tokens import API_KEY_PREFIX, is_well_formed
from tests.support.cli_process import PROGRAM, CommandLine, make_repository
from tests.support.in_process_cli import InProcessCommandLine


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    return InProcessCommandLine(capsys, data_dir)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "shop", {"app.py": "import os\n"})


def test_organizations_are_created_listed_and_moved_to_another_plan(agentjobs):
    assert agentjobs("orgs", "create", "acme", "--plan", "pro").out == "acme\n"
    assert agentjobs("orgs", "set-plan", "acme", "free").exit_code == 0
    organizations = agentjobs("orgs", "list", "--json").document["orgs"]
    assert [(organization["name"], organization["plan"]) for organization in organizations] == [
        ("acme", "free"),
        ("default", "enterprise"),
    ]
    refused = agentjobs("orgs", "create", "acme")
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1


def test_a_severity_from_which_jobs_start_is_set_for_a_repository_or_its_organization(
    agentjobs, repository
):
    assert agentjobs("repos", "connect", str(repository), "--name", "acme/shop").exit_code == 0
    assert agentjobs("repos", "auto-trigger", "acme/shop").out == "none\n"
    assert agentjobs("orgs", "auto-trigger", "default", "HIGH").out == "high\n"
    inherited = agentjobs("repos", "auto-trigger", "acme/shop", "--json").document
    assert inherited["effective"] == {"level": "high", "source": "organization"}
    assert agentjobs("repos", "auto-trigger", "acme/shop", "moderate").out == "medium\n"
    assert agentjobs("repos", "auto-trigger", "acme/shop", "default").out == "high\n"
    refused = agentjobs("repos", "auto-trigger", "acme/shop", "dire")
    assert refused.exit_code == 2
    assert "low, medium, high, critical, none, default" in refused.err


def test_a_key_is_alone_on_stdout_once_and_nowhere_in_the_store(agentjobs):
    created = agentjobs("keys", "create", "--name", "ci", "--scope", "read", "--expires-days", "7")
    key = created.out.removesuffix("\n")
    assert is_well_formed(key, API_KEY_PREFIX)
    listed = agentjobs("keys", "list", "--json")
    (record,) = listed.document["keys"]
    assert (record["name"], record["scope"], record["git_write"]) == ("ci", "read", False)
    assert record["expires_at"].endswith("Z")
    assert key not in listed.out
    assert key.encode() not in (agentjobs.data_dir / "agentjobs.db").read_bytes()

    assert agentjobs("keys", "revoke", record["id"]).exit_code == 0
    (record,) = agentjobs("keys", "list", "--json").document["keys"]
    assert record["revoked_at"] is not None


@pytest.mark.parametrize(
    "arguments",
    [
        (b"orgs", b"create", b"caf\xe9"),
        (b"keys", b"create", b"--name", b"\xff"),
        (b"webhooks", b"add", b"https://93.184.215.14/\xed\xa0\x80"),
        (b"webhooks", b"list", b"--org", b"\xc3"),
        (b"\x80",),
    ],
)
def test_arguments_that_are_not_utf_8_are_refused(agentjobs, arguments):
    done = subprocess.run(
        [*PROGRAM, *arguments],
        env=agentjobs.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.startswith(b"agentjobs: ")
    assert b"is not valid UTF-8" in done.stderr


def test_a_key_of_an_organization_that_is_not_there_is_refused(agentjobs):
    refused = agentjobs("keys", "create", "--org", "nobody")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "nobody" in refused.err


def test_a_repository_is_connected_with_its_history_and_disconnected(agentjobs, repository):
    connected = agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    assert (connected.exit_code, connected.out) == (0, "acme/shop\n")
    (repo,) = agentjobs("repos", "list", "--json").document["repos"]
    assert (repo["full_name"], repo["index_status"]) == ("acme/shop", "indexing")
    assert "acme/shop" in agentjobs("repos", "list").out

    repeated = agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    assert repeated.exit_code == 2
    assert agentjobs("repos", "disconnect", "acme/shop").exit_code == 0
    assert agentjobs("repos", "list", "--json").document == {"repos": []}


def test_protected_paths_are_lifted_and_protected_again(agentjobs, repository):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    lifted = agentjobs("repos", "lift", "acme/shop", ".github/workflows/**")
    assert (lifted.exit_code, lifted.out) == (0, ".github/workflows/**\n")
    (repo,) = agentjobs("repos", "list", "--json").document["repos"]
    assert repo["lifted_paths"] == [".github/workflows/**"]
    refused = agentjobs("repos", "lift", "acme/shop", "../x")
    assert (refused.exit_code, "is not a pattern" in refused.err) == (2, True)
    repeated = agentjobs("repos", "protect", "acme/shop", ".github/workflows/**", "--json")
    assert repeated.document["lifted_paths"] == []
    unknown = agentjobs("repos", "protect", "acme/shop", "x")
    assert (unknown.exit_code, "is not an unprotected path" in unknown.err) == (2, True)


def test_an_operator_sets_the_worker_tags_and_the_limit_of_a_repository(agentjobs, repository):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    done = agentjobs("repos", "set", "acme/shop", "--tags", "gpu", "--max-concurrent-jobs", "2")
    assert (done.exit_code, done.out) == (0, "acme/shop\n")
    (repo,) = agentjobs("repos", "list", "--json").document["repos"]
    assert (repo["required_tags"], repo["max_concurrent_jobs"]) == (["gpu"], 2)
    removed = agentjobs("repos", "set", "acme/shop", "--tags", "none", "--json")
    assert (removed.document["required_tags"], removed.document["max_concurrent_jobs"]) == ([], 2)
    for wrong in ((), ("--tags", "a b"), ("--max-concurrent-jobs", "many")):
        refused = agentjobs("repos", "set", "acme/shop", *wrong)
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_jobs_are_paused_and_resumed_for_all_organizations_or_one(agentjobs):
    for arguments, name in (((), "all organizations"), (("--org", "default"), "default")):
        paused = agentjobs("pause", *arguments)
        assert (paused.exit_code, paused.out) == (0, f"{name}\n")
        assert "It was paused already" in agentjobs("pause", *arguments).err
    assert agentjobs("orgs", "list", "--json").document["orgs"][0]["paused_at"] is not None
    notes = [each["message"] for each in agentjobs("doctor", "--json").document["findings"]]
    assert any(note.endswith("run `agentjobs resume`") for note in notes)
    assert any(note.endswith("run `agentjobs resume --org default`") for note in notes)
    resumed = agentjobs("resume", "--json")
    assert resumed.document == {"org": None, "paused": False, "changed": True}
    assert agentjobs("resume", "--org", "default").exit_code == 0
    assert agentjobs("orgs", "list", "--json").document["orgs"][0]["paused_at"] is None
    assert agentjobs("pause", "--org", "nobody").exit_code == 2


def test_the_other_pause_is_named_when_one_ends(agentjobs):
    paused = agentjobs("pause", "--org", "default")
    assert paused.err == "No new jobs start until `agentjobs resume --org default`.\n"
    agentjobs("pause")
    resumed = agentjobs("resume", "--org", "default")
    assert resumed.err == "The whole service is still paused: run `agentjobs resume`, too.\n"
    agentjobs("pause", "--org", "default")
    resumed = agentjobs("resume")
    assert resumed.err == "Waiting jobs start again. Still paused by `--org`: default.\n"
    assert agentjobs("resume", "--org", "default").err == "Waiting jobs start again.\n"


def test_an_organization_is_exported_and_deleted_with_its_repositories(
    agentjobs, repository, tmp_path
):
    agentjobs("orgs", "create", "doomed")
    connected = agentjobs(
        "repos", "connect", str(repository), "--name", "acme/shop", "--org", "doomed", "--json"
    )
    repo_id = connected.document["id"]
    for place in (f"mirrors/{repo_id}.git", f"workspaces/templates/{repo_id}/1"):
        (agentjobs.data_dir / place).mkdir(parents=True)
    target = tmp_path / "doomed.zip"
    exported = agentjobs("orgs", "export", "doomed", "--output", str(target))
    assert (exported.exit_code, exported.out) == (0, f"{target}\n")
    with ZipFile(target) as archive:
        archive.extract(f"repositories/{repo_id}.bundle", tmp_path)
    bundle = tmp_path / "repositories" / f"{repo_id}.bundle"
    subprocess.run(["git", "clone", "-q", str(bundle), str(tmp_path / "clone")], check=True)
    assert (tmp_path / "clone" / ".git").is_dir()

    unconfirmed = agentjobs("orgs", "delete", "doomed")
    assert (unconfirmed.exit_code, "confirm it with --yes" in unconfirmed.err) == (2, True)
    deleted = agentjobs("orgs", "delete", "doomed", "--yes", "--json")
    assert (deleted.exit_code, deleted.document["deleted"]["repos"]) == (0, 1)
    assert [path for path in agentjobs.data_dir.rglob("*") if repo_id in str(path)] == []
    assert agentjobs("orgs", "delete", "doomed", "--yes").exit_code == 2
    assert agentjobs("orgs", "delete", "default", "--yes").exit_code == 2
    assert [org["name"] for org in agentjobs("orgs", "list", "--json").document["orgs"]] == [
        "default"
    ]


def test_workers_are_listed_drained_and_removed(agentjobs):
    assert agentjobs("workers", "list", "--json").document == {"workers": []}
    with sqlite3.connect(agentjobs.data_dir / "agentjobs.db") as database:
        database.execute(
            "INSERT INTO workers (id, hostname, agents, slots, started_at, heartbeat_at, tags)"
            " VALUES ('wrk_a', 'host-a', '[]', 2, 1, 1, '[\"gpu\"]')"
        )
    (worker,) = agentjobs("workers", "list", "--json").document["workers"]
    assert (worker["id"], worker["status"], worker["tags"]) == ("wrk_a", "silent", ["gpu"])
    assert "host-a" in agentjobs("workers", "list").out
    drained = agentjobs("workers", "drain", "host-a")
    assert (drained.exit_code, drained.out) == (0, "wrk_a\n")
    assert agentjobs("workers", "drain", "host-a", "--undo").exit_code == 0
    removed = agentjobs("workers", "remove", "host-a", "--json")
    assert removed.document == {"id": "wrk_a", "hostname": "host-a", "requeued_jobs": 0}
    assert agentjobs("workers", "remove", "host-a").exit_code == 2


def test_what_is_no_repository_or_an_empty_one_is_refused_and_nothing_stays(agentjobs, tmp_path):
    (tmp_path / "plain").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "empty")], check=True)
    for name in ("plain", "empty", "absent"):
        refused = agentjobs("repos", "connect", str(tmp_path / name), "--name", "a/b")
        assert (refused.exit_code, refused.out) == (2, "")
        assert refused.err.count("\n") == 1
    assert agentjobs("repos", "list", "--json").document == {"repos": []}
    assert list((agentjobs.data_dir / "git").glob("*repo*")) == []


def test_agents_of_the_settings_file_are_listed_beside_the_built_in_one(agentjobs):
    (agentjobs.data_dir / "agentjobs.toml").write_text(
        '[[agents]]\nid = "mine"\nname = "Mine"\ncommand = ["true"]\n'
    )
    agents = agentjobs("agents", "list", "--json").document["agents"]
    assert [agent["id"] for agent in agents] == ["cve-fixer", "lint-fixer", "mine"]


def test_a_pull_request_that_is_not_there_is_one_line(agentjobs, repository):
    agentjobs("repos", "connect", str(repository), "--name", "acme/shop")
    for verb in ("show", "merge", "close", "ready"):
        refused = agentjobs("pulls", verb, "acme/shop", "1")
        assert (refused.exit_code, refused.out) == (2, "")
        assert refused.err.count("\n") == 1
    assert agentjobs("pulls", "list", "--json").document == {"pulls": []}


def test_a_command_can_be_the_first_to_use_a_data_directory(tmp_path):
    agentjobs = CommandLine(tmp_path / "far" / "data")
    created = agentjobs("keys", "create")
    assert created.out.startswith("ajk_")
    assert f"a new store in {agentjobs.data_dir}" in created.err
    assert agentjobs.data_dir.stat().st_mode & 0o777 == 0o700
    assert "a new store" not in agentjobs("keys", "list").err


def test_migrating_again_is_harmless(agentjobs):
    assert agentjobs("migrate").exit_code == 0
    document = agentjobs("migrate", "--json").document
    assert document["revision"] == document["previous_revision"]


def test_the_same_commands_work_on_postgresql(tmp_path, postgres_url, capsys):
    agentjobs = InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=postgres_url)
    assert agentjobs("orgs", "create", "acme").exit_code == 0
    assert agentjobs("keys", "create", "--org", "acme").out.startswith("ajk_")
    assert len(agentjobs("keys", "list", "--org", "acme", "--json").document["keys"]) == 1


def test_a_database_that_is_away_is_one_line(tmp_path, capsys):
    away = "postgresql://agentjobs@127.0.0.1:1/agentjobs"
    refused = InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=away)(
        "orgs", "list"
    )
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1


def test_a_file_that_is_no_database_is_one_line(agentjobs):
    (agentjobs.data_dir / "agentjobs.db").write_bytes(b"not a database" * 100)
    refused = agentjobs("orgs", "list")
    assert refused.exit_code == 2
    assert refused.err.count("\n") == 1


def test_a_database_that_stays_locked_is_one_line_and_nothing_is_written(agentjobs):
    agentjobs("orgs", "list")
    holder = sqlite3.connect(agentjobs.data_dir / "agentjobs.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    refused = agentjobs("orgs", "create", "acme")
    assert refused.exit_code == 2
    assert refused.err.count("\n") == 1
    holder.execute("ROLLBACK")
    holder.close()
    organizations = agentjobs("orgs", "list", "--json").document["orgs"]
    assert [organization["name"] for organization in organizations] == ["default"]


@pytest.mark.parametrize(("first_use", "room_bytes"), [(False, 0), (True, 0), (True, 40_000)])
def test_a_disk_that_is_full_is_one_line(agentjobs, first_use, room_bytes):
    """With some free space, the database is created but its migration does not fit."""
    if first_use:
        (agentjobs.data_dir / "agentjobs.db").unlink()
    process = start_on_a_full_disk(agentjobs, room_bytes, "orgs", "create", "acme")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "cannot be used: the disk" in err
    assert agentjobs("orgs", "create", "acme").exit_code == 0


def start_on_a_full_disk(agentjobs, room_bytes, *arguments):
    """Limits the file size of the process to simulate a full disk."""
    # The process waits until the limit is set, then executes the command.
    become = "import os, sys; sys.stdin.read(1); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", become, *PROGRAM, *arguments],
        env={**agentjobs.environment, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room_bytes, resource.RLIM_INFINITY))
    return process


def test_a_role_that_may_not_create_tables_is_told_what_to_grant(
    tmp_path, postgres_cluster, capsys
):
    name = postgres_cluster.create_database()
    postgres_cluster.sql('CREATE ROLE "guest one" LOGIN')
    postgres_cluster.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC", name)
    url = postgres_cluster.url(name).replace("agentjobs@", "guest%20one@")
    refused = InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_DATABASE_URL=url)("migrate")
    postgres_cluster.drop_database(name)
    postgres_cluster.sql('DROP ROLE "guest one"')
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 2, "what it began, and the error"
    assert refused.err.endswith('GRANT CREATE ON SCHEMA public TO "guest one"\n')
    assert "bug" not in refused.err


def test_a_keys_expiry_and_networks_are_set_and_edited(agentjobs):
    created = agentjobs(
        *("keys", "create", "--name", "ci", "--expires-in", "30d", "--json"),
        *("--network", "10.1.0.0/16,192.0.2.7", "--network", "2001:db8::/32"),
    ).document
    assert created["allowed_networks"] == ["10.1.0.0/16", "192.0.2.7/32", "2001:db8::/32"]
    lifetime = datetime.fromisoformat(created["expires_at"]) - datetime.fromisoformat(
        created["created_at"]
    )
    assert 29 <= lifetime.total_seconds() / 86_400 <= 31
    assert "10.1.0.0/16" in agentjobs("keys", "list").out
    edit = ("keys", "edit", created["id"], "--json")
    edited = agentjobs(*edit, "--expires-in", "2031-01-31", "--network", "any").document
    assert (edited["expires_at"], edited["allowed_networks"]) == ("2031-01-31T00:00:00.000Z", [])
    edited = agentjobs(*edit, "--expires-in", "never", "--name", "build").document
    assert (edited["expires_at"], edited["name"]) == (None, "build")
    assert agentjobs("keys", "list", "--json").document["keys"] == [edited]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--expires-in", "soon"), "30d"),
        (("--expires-in", "2020-01-01"), "in the future"),
        (("--network", "10.0.0.1/8"), "not a network"),
        (("--network", "any,10.0.0.0/8"), "not a network"),
    ],
)
def test_an_invalid_expiry_or_network_is_refused(agentjobs, options, message):
    refused = agentjobs("keys", "create", *options)
    assert (refused.exit_code, refused.out) == (2, "")
    assert message in refused.err
    assert agentjobs("keys", "list", "--json").document["keys"] == []
    assert agentjobs("keys", "edit", "key_none", "--name", "x").exit_code == 2
    assert agentjobs("keys", "edit", "key_none").exit_code == 2
