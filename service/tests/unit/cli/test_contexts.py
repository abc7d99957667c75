"""Which service and key a client command uses, and the file that stores them."""

import multiprocessing
import os
import stat
import sys
from pathlib import Path

import pytest

from agentjobs.cli.contexts import connection
from agentjobs.cli.contexts.address import check_address, is_unencrypted
from agentjobs.cli.contexts.connection import RetryPause, choose_connection
from agentjobs.cli.contexts.credentials import (
    Context,
    Credentials,
    check_name,
    credentials_path,
    edit_credentials,
    load_credentials,
)
from agentjobs_runtime.problems import Problem

PROD = Context("prod", "https://jobs.example", "ajk_prod", "/ca/ü \U0001f511\x7f.pem")
TEST = Context("[::1]:8080", 'http://[::1]:8080/a"b\\', "ajk_test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "agentjobs" / "credentials.toml"


def store(path: Path, *contexts: Context) -> None:
    for context in contexts:
        with edit_credentials(path) as (credentials, save):
            save(credentials.with_context(context))


def environment(path: Path, **variables: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(path.parent.parent), **variables}


def test_what_is_stored_is_read_again_and_private(path):
    store(path, PROD, TEST)
    assert load_credentials(path) == Credentials(TEST.name, {"prod": PROD, TEST.name: TEST})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_link_to_the_file_stays_a_link(path, tmp_path):
    store(tmp_path / "dotfiles" / "credentials.toml", PROD)
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "dotfiles" / "credentials.toml")
    store(path, TEST)
    assert path.is_symlink()
    assert set(load_credentials(path).contexts) == {PROD.name, TEST.name}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606])
def test_a_file_that_others_can_access_is_refused(path, mode):
    store(path, PROD)
    path.chmod(mode)
    with pytest.raises(Problem, match="chmod 600"):
        load_credentials(path)
    with pytest.raises(Problem, match="chmod 600"):
        store(path, TEST)


@pytest.mark.parametrize(
    "content",
    [
        b"contexts = 1",
        b"[contexts.prod]\nurl = 'x'",
        b"[contexts.prod]\nurl = 1\napi_key = 'x'",
        b"contexts.prod = []",
        b"[contexts.prod]\nurl = 'x'\napi_key = 'x'\nca_file = 1",
        b"[contexts.'a b']\nurl = 'x'\napi_key = 'x'",
        b"not toml",
        b"\xff",
        b"x = '" + b"x" * 300_000 + b"'",
    ],
)
def test_a_damaged_file_is_a_problem_that_names_it(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(Problem) as refused:
        load_credentials(path)
    assert "name a context" in str(refused.value) or str(path) in str(refused.value)


def test_a_directory_or_pipe_in_its_place_is_a_problem(path):
    path.parent.mkdir(parents=True)
    os.mkfifo(path, 0o600)
    with pytest.raises(Problem, match="not a regular file"):
        load_credentials(path)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "$(x)", "a'b", 'a"b', "a;b", "é", "x" * 129])
def test_a_name_that_a_shell_would_interpret_is_refused(name):
    with pytest.raises(Problem, match="cannot name a context"):
        check_name(name)


def test_processes_that_log_in_at_the_same_time_lose_no_context(path):
    names = [f"c{number}" for number in range(8)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.starmap(store, [(path, Context(name, "http://x", "k")) for name in names])
    assert set(load_credentials(path).contexts) == set(names)


def test_what_a_killed_process_left_is_deleted_with_the_next_change(path):
    store(path, PROD)
    leftover = path.with_name(f".{path.name}.0f0882bfb94f042a")
    leftover.write_text(PROD.api_key)
    with edit_credentials(path) as (credentials, save):
        save(credentials.without_context(PROD.name))
    assert not leftover.exists()
    assert load_credentials(path) == Credentials(None, {})


def test_the_directory_of_the_user_is_respected(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    below_home = tmp_path / ".config" / "agentjobs" / "credentials.toml"
    assert credentials_path({}) == below_home
    assert credentials_path({"XDG_CONFIG_HOME": "relative"}) == below_home
    assert credentials_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/agentjobs/credentials.toml")


def test_a_flag_wins_over_variables_and_variables_over_the_current_context(path):
    store(path, TEST, PROD)
    both = {"AGENTJOBS_URL": "http://a", "AGENTJOBS_API_KEY": "ajk_a"}
    named = {"AGENTJOBS_CONTEXT": TEST.name}
    for context, variables, expected in (
        (None, {}, (PROD.url, "ajk_prod", "context prod", PROD.ca_file)),
        (None, named, (TEST.url, TEST.api_key, f"context {TEST.name}", None)),
        (None, both | named, ("http://a", "ajk_a", "AGENTJOBS_URL", None)),
        ("prod", both | named, (PROD.url, "ajk_prod", "context prod", PROD.ca_file)),
    ):
        assert choose_connection(context, environment(path, **variables)) == expected


@pytest.mark.parametrize(
    "variables", [{"AGENTJOBS_URL": "http://a"}, {"AGENTJOBS_API_KEY": "ajk_a"}]
)
def test_a_key_is_never_sent_to_the_address_of_another_source(path, variables):
    store(path, PROD)
    with pytest.raises(Problem, match="is set, but"):
        choose_connection(None, environment(path, **variables))


def test_a_terminal_says_once_that_a_service_does_not_respond(monkeypatch, capsys):
    pauses: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", pauses.append)
    pause = RetryPause("https://jobs.example")
    pause(1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    pause = RetryPause("https://jobs.example")
    for seconds in (2, 3):
        pause(seconds)
    assert capsys.readouterr().err.endswith("https://jobs.example does not respond; trying again\n")
    assert pauses == [1, 2, 3]


def test_without_a_service_the_next_step_is_named(path):
    with pytest.raises(Problem, match="run `agentjobs login`"):
        choose_connection(None, environment(path))
    store(path, PROD)
    with edit_credentials(path) as (credentials, save):
        save(credentials._replace(current=None))
    with pytest.raises(Problem, match="contexts use NAME"):
        choose_connection(None, environment(path))
    with pytest.raises(Problem, match=r"There is no context 'x' \(known: prod\)"):
        choose_connection("x", environment(path))


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("jobs.example", "https://jobs.example"),
        ("Jobs.Example:8443/ ", "https://jobs.example:8443"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost", "http://localhost"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://10.0.0.1/v1/", "http://10.0.0.1/v1"),
        ("HTTPS://x/Path", "https://x/Path"),
    ],
)
def test_an_address_may_be_short(typed, address):
    assert check_address(typed).geturl() == address


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "",
            "http://",
            "ftp://x",
            "https://x:99999",
            "https://x:a",
            "https://[::1",
            "https://a b",
        ),
        *(
            "https://user:pass@x",
            "https://x?y=1",
            "https://x#y",
            "https://x\n.y",
            "https://é.example",
        ),
    ],
)
def test_an_address_that_is_none_is_refused(typed):
    with pytest.raises(Problem):
        check_address(typed)


def test_a_password_in_an_address_is_not_shown():
    for typed in ("https://user:hush@x", "https://user:hush@x:99999", "https://user:hu sh@x"):
        with pytest.raises(Problem) as refused:
            check_address(typed)
        assert "hu" not in str(refused.value)


def test_plain_http_is_unencrypted_unless_it_stays_on_this_machine():
    assert is_unencrypted(check_address("http://10.0.0.1"))
    assert not is_unencrypted(check_address("http://127.0.0.2"))
    assert not is_unencrypted(check_address("https://10.0.0.1"))
