"""What the command line makes of words, failures and tables, without running anything."""

import errno
import os
import platform
import re
import sys

import pytest
import typer

from agentjobs.cli import failures
from agentjobs.cli.jobs.create import config_override
from agentjobs.cli.jobs.text import details
from agentjobs.cli.main import main
from agentjobs.cli.output import print_answer, print_json, print_note, print_result, print_table
from agentjobs.cli.pulls import _conflict
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.postgresql.address import display_address, is_local_address
from agentjobs_client import ApiError, Job
from agentjobs_runtime.free_space import describe_read_only
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import SettingsError


@pytest.fixture(autouse=True)
def _no_settings_of_another_service(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("AGENTJOBS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def agentjobs(monkeypatch, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["agentjobs", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Problem("name_taken", "It exists already."), "It exists already."),
        (SettingsError("port must be\nbetween 0 and 65535"), "port must be between 0 and 65535"),
        (StoreUnavailable("the disk is full"), "the disk is full"),
        (ApiError(404, "job_not_found", "No such job."), "No such job. (job_not_found)"),
        (
            OSError(errno.EADDRINUSE, "Address in use"),
            "Address in use; choose another port with --port",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data"),
            "the disk of /data is full; free some space there",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/from", None, "/to"),
            "the disk of /to is full; free some space there",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "the disk is full: No space left on device",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/data"),
            describe_read_only("/data"),
        ),
        (
            UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates not allowed"),
            "the input is not valid UTF-8",
        ),
        (ExceptionGroup("tasks", [Problem("x", "The first one.")]), "The first one."),
    ],
)
def test_what_can_go_wrong_is_one_line_on_stderr_and_exit_code_2(error, line, capsys):
    assert failures.report(error) == 2
    captured = capsys.readouterr()
    assert captured.err == f"agentjobs: {line}\n"
    assert captured.out == ""


def test_a_bug_is_one_line_too_and_says_how_to_see_more(capsys):
    assert failures.report(KeyError("x")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_traceback_is_shown_to_who_asks_for_it(capsys, monkeypatch):
    monkeypatch.setenv("AGENTJOBS_TRACEBACK", "1")
    failures.report(KeyError("x"))
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-noun",),
        ("keys", "create", "--no-such-flag"),
        ("orgs", "create"),
        ("up", "--port", "abc"),
        ("worker", "--slots", "0"),
        ("pulls", "show", "a/b", "one"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(agentjobs, arguments):
    exit_code, out, err = agentjobs(*arguments)
    assert (exit_code, out) == (2, "")
    assert err.startswith("agentjobs: ")
    assert err.count("\n") == 1
    assert "--help" in err


def test_the_tags_of_a_worker_are_checked_before_it_starts(agentjobs):
    exit_code, out, err = agentjobs("worker", "--tags", "gpu, LARGE")
    assert (exit_code, out) == (2, "")
    assert err == "agentjobs: worker_tags: 'LARGE' must have 1 to 32 characters (a-z, 0-9, `-`)\n"


@pytest.mark.parametrize(
    "noun", [(), ("orgs",), ("keys",), ("repos",), ("agents",), ("pulls",), ("jobs",), ("secrets",)]
)
def test_every_noun_explains_itself(agentjobs, noun):
    exit_code, out, _ = agentjobs(*noun, "--help")
    assert exit_code == 0
    assert "Commands:" in out


def test_the_version_is_told(agentjobs):
    exit_code, out, _ = agentjobs("--version")
    assert exit_code == 0
    assert re.fullmatch(r"agentjobs \d+\.\d+\.\d+ \((commit|development)\b.*\)\n", out)


@pytest.mark.parametrize("command", ["up", "serve", "worker", "doctor"])
def test_services_on_another_system_than_linux_are_refused_in_one_line(
    agentjobs, monkeypatch, command
):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    exit_code, out, err = agentjobs(command)
    assert (exit_code, out, err.count("\n")) == (2, "", 1)
    assert "this command runs on Linux only, and this is macOS (arm64): run it on a Linux" in err


def test_a_bad_settings_file_is_one_line_that_names_the_place(agentjobs, tmp_path):
    (tmp_path / "agentjobs.toml").write_text("queue_limit = 'many'\n")
    exit_code, out, err = agentjobs("agents", "list", "--data-dir", str(tmp_path))
    assert (exit_code, out) == (2, "")
    assert err.count("\n") == 1
    assert "agentjobs.toml, line 1" in err


def test_client_commands_ask_for_the_address_they_miss(agentjobs):
    exit_code, _, err = agentjobs("jobs", "list")
    assert exit_code == 2
    assert "AGENTJOBS_URL" in err


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_service_for_others_needs_its_public_address(agentjobs, monkeypatch, tmp_path, command):
    monkeypatch.setenv("AGENTJOBS_HOST", "0.0.0.0")
    exit_code, _, err = agentjobs(command, "--data-dir", str(tmp_path))
    assert exit_code == 2
    assert "AGENTJOBS_PUBLIC_URL" in err


@pytest.mark.parametrize(
    "place",
    ["db.example/store", "127.0.0.1,10.0.0.7/store", "10.0.0.7:5432/store", "/store?host=db"],
)
def test_a_worker_beside_no_service_needs_its_address(agentjobs, monkeypatch, tmp_path, place):
    monkeypatch.setenv("AGENTJOBS_DATABASE_URL", f"postgresql://{place}")
    exit_code, _, err = agentjobs("worker", "--data-dir", str(tmp_path))
    assert exit_code == 2
    assert "AGENTJOBS_PUBLIC_URL" in err


@pytest.mark.parametrize(
    "place",
    [
        *("u:p@127.0.0.1:5432/store", "localhost/store", "[::1]:5432/store", "u@[::1]/store"),
        *("/store", "u@/store?host=/run/pg", "%2Frun%2Fpg/store", "/store?host=localhost"),
    ],
)
def test_a_database_on_loopback_or_a_socket_is_on_this_machine(monkeypatch, place):
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGSERVICE", raising=False)
    assert is_local_address(f"postgresql://{place}")


def test_a_host_or_service_of_the_environment_counts(monkeypatch):
    monkeypatch.setenv("PGHOST", "db.example")
    assert not is_local_address("postgresql:///store")
    monkeypatch.setenv("PGHOST", "/run/pg")
    assert is_local_address("postgresql:///store")
    monkeypatch.setenv("PGSERVICE", "mine")
    assert not is_local_address("postgresql:///store")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:hush@host:5432/db", "host:5432/db"),
        ("postgresql://u:hu/sh@host/db", "host/db"),
        ("postgresql://u:hu#sh@host/db", "host/db"),
        ("postgresql://u:hu@sh@host/db", "host/db"),
        ("postgresql://u:hu?sh@host/db", "its address"),
        ("postgresql://u@host/db?password=hush", "host/db"),
        ("postgresql://u@host/db?password=x@hush", "its address"),
        ("postgresql:///db?user=u&password=hush", "its address"),
        ("postgresql://u:hush@/db", "its address"),
        ("hush", "its address"),
    ],
)
def test_a_database_is_named_without_any_of_its_password(url, shown):
    assert display_address(url) == shown


def test_overrides_are_json_where_they_can_be_and_text_elsewhere():
    assert config_override(
        ["draft=true", "timeout_seconds=60", 'reviewers=["ann"]', "mode=fast", "title=42", "x="]
    ) == {
        "draft": True,
        "timeout_seconds": 60,
        "reviewers": ["ann"],
        "mode": "fast",
        "title": "42",
        "x": "",
    }
    assert config_override([]) == {}
    assert config_override(["prompt=a=b"]) == {"prompt": "a=b"}


@pytest.mark.parametrize("word", ["draft", "=true"])
def test_an_override_that_is_no_pair_is_refused(word):
    with pytest.raises(typer.BadParameter):
        config_override([word])


def test_a_table_for_a_pipe_is_tab_separated_and_never_wrapped(capsys):
    print_table(("name", "draft", "error"), [("n" * 200, True, None), ("a\tb\nc", False, "e")])
    assert capsys.readouterr().out.splitlines() == [
        "name\tdraft\terror",
        f"{'n' * 200}\tyes\t-",
        "a b c\tno\te",
    ]


def test_a_table_for_a_terminal_shows_markup_as_it_is(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_table(("title",), [("[bold]not bold[/bold]",)])
    assert "[bold]not bold[/bold]" in capsys.readouterr().out


def test_a_table_too_wide_for_the_terminal_breaks_no_identifier(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("id", "name"), [("key_" + "0" * 26, "a name that is quite long")])
    assert capsys.readouterr().out.splitlines() == [
        "id    key_" + "0" * 26,
        "name  a name that is quite long",
        "",
    ]


def test_json_is_one_document(capsys):
    import json

    print_json({"keys": ["a", None]})
    assert json.loads(capsys.readouterr().out) == {"keys": ["a", None]}


HOSTILE = "a\x1b]0;owned\x07\x9b2J\r\x7f\tb\nc"
HARMLESS = "a\\x1b]0;owned\\x07\\x9b2J\\r\\x7f\tb\nc"


def test_escape_sequences_reach_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    print_result(HOSTILE)
    print_note(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out == captured.err == f"{HARMLESS}\n"

    monkeypatch.setenv("COLUMNS", "60")
    print_table(("title",), [("x\x1b[2J",)])
    assert "x\\x1b[2J" in capsys.readouterr().out


def test_what_goes_to_a_program_is_left_as_it_is(capsys):
    import json

    print_result(HOSTILE)
    assert capsys.readouterr().out == f"{HOSTILE}\n"
    print_json({"title": HOSTILE})
    out = capsys.readouterr().out
    assert json.loads(out) == {"title": HOSTILE}
    assert out.replace("\n", "").isprintable()


def test_a_file_name_in_a_conflict_is_one_line_whatever_is_in_it(capsys):
    files = ["a\nb\x1b[2J", "plain"]
    message = f"It conflicts in: {', '.join(files)}."
    answer = _conflict(Problem("pull_not_mergeable", message, details={"files": files}))
    with pytest.raises(typer.Exit):
        print_answer(answer, json=False)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["a\\nb\\x1b[2J", "plain"]
    assert captured.err == "agentjobs: It conflicts in: a\\nb\\x1b[2J, plain.\n"


def test_what_a_job_used_and_its_check_read_as_words():
    job = Job.from_document(
        {
            "job_id": "job_1",
            "status": "completed",
            "agent": "fixer",
            "usage": {"requests": 2, "cost_usd": 0.5},
            "verification": {"command": "make test", "passed": True, "output": ""},
        }
    )
    facts = dict(details(job))
    assert facts["usage"] == "requests 2, cost_usd 0.5"
    assert facts["verification"] == "command make test, passed True"
