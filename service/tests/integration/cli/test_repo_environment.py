"""`agentjobs repos environment` as an admin types it."""

import io
import shutil
import sys

import pytest

from tests.support.git_commands import make_repository
from tests.support.in_process_cli import InProcessCommandLine

COMMAND = ("repos", "environment")
NAME = "acme/shop"
TEXT = '[environment]\nimage = "python:3.12"\nimgae = 1\n[environment.variables]\nCI = "1"\n'


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    command_line = InProcessCommandLine(capsys, tmp_path / "data")
    source = make_repository(tmp_path / "source")
    assert command_line("repos", "connect", str(source), "--name", NAME).exit_code == 0
    return command_line


def test_a_definition_is_set_from_a_file_or_options_and_cleared(agentjobs, tmp_path, monkeypatch):
    file = tmp_path / "environment.toml"
    file.write_text(TEXT)
    stored = agentjobs(*COMMAND, "set", NAME, "--file", str(file), "--json")
    assert stored.document["definition"]["image"] == "python:3.12"
    assert f"{file}, line 3: imgae is not a key" in stored.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert agentjobs(*COMMAND, "set", NAME, "--file", "-").out == f"{NAME}\n"
    flags = ("--image", "node:22", "--setup", "npm ci", "--start", "make db")
    options = agentjobs(*COMMAND, "set", NAME, *flags, "--json").document["definition"]
    assert (options["image"], options["setup"], options["start"]) == (
        "node:22",
        "npm ci",
        "make db",
    )
    assert agentjobs(*COMMAND, "clear", NAME, "--json").document["definition"] is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("set", NAME), "specify --file"),
        (("set", NAME, "--file", "x", "--image", "a"), "specify --file"),
        (("set", NAME, "--image", "A"), "--image: 'A' is not a reference"),
        (("set", NAME, "--file", "/nowhere/x.toml"), "/nowhere/x.toml"),
        (("set", "acme/none", "--image", "a"), "is not connected"),
        (("clear", "acme/none"), "is not connected"),
        (("trust-branch", NAME, "a b"), "not the name of a branch"),
        (("trust-branch", NAME), "BRANCH"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(agentjobs, arguments, reason):
    refused = agentjobs(*COMMAND, *arguments)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert reason in refused.err


def test_branches_are_trusted_and_not_any_more(agentjobs):
    assert agentjobs(*COMMAND, "trust-branch", NAME, "develop", "next").out == "develop\nnext\n"
    trusted = agentjobs(*COMMAND, "trust-branch", NAME, "release/2", "--json").document
    assert trusted["trusted_branches"] == ["develop", "next", "release/2"]
    left = agentjobs(*COMMAND, "trust-branch", NAME, "develop", "next", "--remove").out
    assert left == "release/2\n"
