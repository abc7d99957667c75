"""`agentjobs secrets` and `orgs set-budget` as an operator types them."""

import io
import os
import pty
import shutil
import subprocess
import sys

import pytest

from agentjobs.organizations import key_rotation
from agentjobs.organizations.key_file import KEY_FILE, KeyFile
from tests.support.cli_process import PROGRAM, until
from tests.support.git_commands import make_repository
from tests.support.in_process_cli import InProcessCommandLine

VALUE = "sk-ant-" + "x1" * 30


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(capsys, tmp_path / "data")


@pytest.fixture
def given(agentjobs, monkeypatch):
    """Runs a command with the given standard input."""

    def run(data: bytes, *arguments: str):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return agentjobs("secrets", *arguments)

    return run


def test_a_secret_goes_in_and_never_comes_out(agentjobs, given):
    stored = given(VALUE.encode() + b"\n", "set", "ANTHROPIC_API_KEY")
    assert (stored.exit_code, stored.out) == (0, "ANTHROPIC_API_KEY\n")
    assert str(agentjobs.data_dir / "encryption.key") in stored.err
    listed = agentjobs("secrets", "list", "--json")
    (secret,) = listed.document["secrets"]
    assert secret["name"] == "ANTHROPIC_API_KEY"
    assert secret["key_id"] in stored.err
    assert "ANTHROPIC_API_KEY" in agentjobs("secrets", "list").out
    assert VALUE not in stored.out + stored.err + listed.out
    assert VALUE.encode() not in (agentjobs.data_dir / "agentjobs.db").read_bytes()

    assert agentjobs("secrets", "remove", "ANTHROPIC_API_KEY").exit_code == 0
    assert agentjobs("secrets", "list", "--json").document == {"secrets": []}


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\xff\xfe", b"x" * 40_000], ids=["none", "empty", "bytes", "long"]
)
def test_what_cannot_be_a_secret_is_refused_in_one_line(agentjobs, given, data):
    refused = given(data, "set", "API_KEY")
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert not (agentjobs.data_dir / "encryption.key").exists()


def test_a_value_is_never_taken_from_the_arguments(agentjobs):
    refused = agentjobs("secrets", "set", "API_KEY", "value")
    assert refused.exit_code == 2
    assert agentjobs("secrets", "list", "--json").document == {"secrets": []}


def test_a_value_typed_on_a_terminal_is_not_echoed(agentjobs):
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "secrets", "set", "API_KEY"]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    seen = b""
    with subprocess.Popen(command, env=agentjobs.environment, start_new_session=True, **streams):
        os.close(theirs)
        while b"Value of API_KEY: " not in seen:
            seen += os.read(ours, 1024)
        os.write(ours, VALUE.encode() + b"\n")
        while chunk := _read(ours):
            seen += chunk
    os.close(ours)
    assert VALUE.encode() not in seen
    (secret,) = agentjobs("secrets", "list", "--json").document["secrets"]
    assert secret["name"] == "API_KEY"


def test_a_pipe_works_in_a_real_process(agentjobs):
    done = subprocess.run(
        [*PROGRAM, "secrets", "set", "API_KEY", "--json"],
        env=agentjobs.environment,
        input=b"line one\r\nline two\r\n",
        capture_output=True,
        check=True,
    )
    assert b'"name": "API_KEY"' in done.stdout


def test_a_backup_leaves_the_key_out(agentjobs, given, tmp_path):
    given(VALUE.encode(), "set", "API_KEY")
    assert (agentjobs.data_dir / "encryption.key").exists()
    assert agentjobs("backup", str(tmp_path / "backup")).exit_code == 0
    key = (agentjobs.data_dir / "encryption.key").read_bytes().strip()
    kept = [path for path in (tmp_path / "backup").rglob("*") if path.is_file()]
    assert "encryption.key" not in {path.name for path in kept}
    assert all(key not in path.read_bytes() for path in kept)


def test_a_budget_is_set_shown_and_lifted(agentjobs):
    budget = agentjobs("orgs", "set-budget", "default", "--per-day", "25", "--per-job", "0.1")
    assert (budget.exit_code, budget.out) == (0, "default\n")
    (org,) = agentjobs("orgs", "list", "--json").document["orgs"]
    assert (org["daily_budget_usd"], org["job_budget_usd"]) == (25, 0.1)
    assert "25.00\t0.10" in agentjobs("orgs", "list").out
    lifted = agentjobs("orgs", "set-budget", "default", "--per-day", "none", "--json").document
    assert lifted == {"name": "default", "daily_budget_usd": None, "job_budget_usd": 0.1}


@pytest.mark.parametrize("arguments", [(), ("--per-day", "free"), ("--per-job", "0")])
def test_a_budget_that_is_none_is_refused_in_one_line(agentjobs, arguments):
    refused = agentjobs("orgs", "set-budget", "default", *arguments)
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1


@pytest.fixture
def shop(agentjobs, tmp_path):
    source = make_repository(tmp_path / "source")
    return agentjobs("repos", "connect", str(source), "--name", "acme/shop").out.strip()


def test_secrets_of_environments_are_set_listed_and_removed(agentjobs, given, shop):
    setup = given(b"npm_0123456789\n", "set", "NPM_TOKEN", "--repo", shop, "--for", "setup")
    assert (setup.exit_code, setup.out) == (0, "NPM_TOKEN\n")
    proxy = given(
        b"t0ken",
        *("set", "ART", "--repo", shop, "--for", "proxy", "--host", "packages.acme.test"),
        *("--header", "Authorization: Bearer {secret}", "--kind", "pip"),
        *("--path-prefix", "/simple", "--methods", "GET", "--json"),
    ).document
    assert (proxy["for"], proxy["repo"], proxy["host"]) == ("proxy", shop, "packages.acme.test")
    assert proxy["usage"]["path_prefix"] == "/simple"
    registry = ("--for", "registry", "--host", "registry.test:5000", "--username", "ada")
    assert given(b"hunter2", "set", "HUB", *registry).exit_code == 0
    assert given(b"sk-model-key", "set", "HUB").exit_code == 0

    listed = agentjobs("secrets", "list", "--json").document["secrets"]
    assert [(each["name"], each["for"], each["repo"]) for each in listed] == [
        ("HUB", "models", None),
        ("HUB", "registry", None),
        ("ART", "proxy", shop),
        ("NPM_TOKEN", "setup", shop),
    ]
    of_repo = agentjobs("secrets", "list", "--repo", shop)
    assert of_repo.out.count("\n") == 3
    assert "packages.acme.test" in of_repo.out
    doctor = agentjobs("doctor")
    assert "4 stored, all readable" in doctor.out

    assert agentjobs("secrets", "remove", "HUB", "--for", "registry").exit_code == 0
    assert agentjobs("secrets", "remove", "ART", "--repo", shop).exit_code == 0
    left = agentjobs("secrets", "list", "--json").document["secrets"]
    assert [(each["name"], each["for"]) for each in left] == [
        ("HUB", "models"),
        ("NPM_TOKEN", "setup"),
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--repo", "acme/shop"), "specify --for"),
        (("--host", "a.test"), "specify --for"),
        (("--for", "setup"), "Name the repository"),
        (("--for", "builds", "--repo", "acme/shop"), "is for setup, proxy or registry"),
        (("--for", "setup", "--repo", "acme/none"), "is not connected"),
        (("--for", "setup", "--repo", "acme/shop", "--host", "a.test"), "has no host"),
        (("--for", "proxy", "--repo", "acme/shop", "--host", "a.test"), "needs a header"),
        (("--for", "registry", "--host", "a.test"), "needs a username"),
    ],
)
def test_a_secret_with_the_wrong_options_is_refused_in_one_line(
    agentjobs, given, shop, arguments, reason
):
    refused = given(b"npm_0123456789", "set", "TOKEN", *arguments)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert reason in refused.err
    assert agentjobs("secrets", "list", "--json").document == {"secrets": []}


@pytest.mark.parametrize(
    "arguments", [("--for", "setup"), ("--for", "registry", "--repo", "acme/shop")]
)
def test_removing_needs_the_scope_of_the_secret(agentjobs, shop, arguments):
    refused = agentjobs("secrets", "remove", "TOKEN", *arguments)
    assert (refused.exit_code, refused.err.count("\n")) == (2, 1)


def test_the_hosts_of_setup_are_limited_and_restored(agentjobs):
    command = ("orgs", "set-setup-network", "default")
    assert agentjobs(*command, "pypi.org", "*.crates.io").exit_code == 2
    limited = agentjobs(*command, "pypi.org", "index.crates.io")
    assert (limited.exit_code, limited.out) == (0, "default\n")
    (org,) = agentjobs("orgs", "list", "--json").document["orgs"]
    assert org["setup_network"] == ["pypi.org", "index.crates.io"]
    assert agentjobs(*command, "--none", "--json").document["setup_network"] == []
    assert agentjobs(*command, "--default", "--json").document["setup_network"] is None
    for arguments in ((), ("--none", "--default"), ("pypi.org", "--default"), ("https://x",)):
        refused = agentjobs(*command, *arguments)
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1024)
    except OSError:
        # Linux reports the closed end of a terminal this way.
        return b""


@pytest.fixture
def no_wait(monkeypatch):
    monkeypatch.setattr(key_rotation, "SETTLE_SECONDS", 0)


def key_ids(agentjobs) -> list[str]:
    keys = KeyFile(agentjobs.data_dir / KEY_FILE).read()
    return [key_id.hex() for key_id in keys]


@pytest.mark.usefixtures("no_wait")
def test_the_encryption_key_is_rotated(agentjobs, given):
    given(VALUE.encode(), "set", "API_KEY")
    (old,) = key_ids(agentjobs)
    prepared = agentjobs("secrets", "rotate-key", "--prepare")
    assert (prepared.exit_code, key_ids(agentjobs)) == (0, [old, prepared.out.strip()])
    assert "Copy the file" in prepared.err
    assert "unfinished" in agentjobs("doctor").out
    rotated = agentjobs("secrets", "rotate-key", "--json")
    assert rotated.exit_code == 0
    assert rotated.document == {
        "key_id": prepared.out.strip(),
        "previous_key_ids": [old],
        "resealed": {
            "secrets": 1,
            "webhooks": 0,
            "platforms": 0,
            "platform webhooks": 0,
            "trackers": 0,
            "environments": 0,
        },
        "failures": [],
        "complete": True,
    }
    assert "secrets: 1 encrypted" in rotated.err
    assert key_ids(agentjobs) == [prepared.out.strip()]
    (secret,) = agentjobs("secrets", "list", "--json").document["secrets"]
    assert secret["key_id"] == prepared.out.strip()
    repeated = agentjobs("secrets", "rotate-key")
    assert (repeated.exit_code, repeated.out) == (0, f"{key_ids(agentjobs)[0]}\n")
    assert f"previous keys: {prepared.out.strip()}" in repeated.err
    assert VALUE not in rotated.out + rotated.err + repeated.err


@pytest.mark.usefixtures("no_wait")
def test_a_secret_that_cannot_be_decrypted_is_named_with_exit_code_1(agentjobs, given):
    given(b"one", "set", "LOST")
    (agentjobs.data_dir / KEY_FILE).unlink()
    given(b"two", "set", "KEPT")
    refused = agentjobs("secrets", "rotate-key")
    assert refused.exit_code == 1
    assert "LOST" in refused.err
    assert "old keys are kept" in refused.err
    assert len(key_ids(agentjobs)) == 2
    assert agentjobs("secrets", "remove", "LOST").exit_code == 0
    assert agentjobs("secrets", "rotate-key").exit_code == 0
    assert len(key_ids(agentjobs)) == 1


def test_without_a_key_there_is_nothing_to_rotate(agentjobs):
    refused = agentjobs("secrets", "rotate-key")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "first secret" in refused.err


def test_a_killed_rotation_is_continued(agentjobs, given, monkeypatch):
    given(VALUE.encode(), "set", "API_KEY")
    (old,) = key_ids(agentjobs)
    with agentjobs.started("secrets", "rotate-key") as process:
        # It waits some seconds for running operations, then removes the old key.
        until(lambda: "secrets: 1 encrypted" in agentjobs.log_of(process))
        process.kill()
        process.wait(30)
    assert len(key_ids(agentjobs)) == 2
    assert "1 stored, all readable" in agentjobs("doctor").out

    monkeypatch.setattr(key_rotation, "SETTLE_SECONDS", 0)
    assert agentjobs("secrets", "rotate-key").exit_code == 0
    assert len(key_ids(agentjobs)) == 1
    assert key_ids(agentjobs) != [old]
    assert "1 stored, all readable" in agentjobs("doctor").out
