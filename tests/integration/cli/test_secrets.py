"""`agentjobs secrets` and `orgs set-budget` as an operator types them."""

import io
import os
import pty
import shutil
import subprocess
import sys

import pytest

from tests.support.cli_process import PROGRAM, InProcessCommandLine

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


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1024)
    except OSError:
        # Linux reports the closed end of a terminal this way.
        return b""
