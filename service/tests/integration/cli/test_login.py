"""`agentjobs login`, `logout` and `contexts` against a running service."""

import os
import pty
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_process import PROGRAM, CommandLine, CommandResult, RunningService


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[tuple[CommandLine, RunningService]]:
    data_dir = tmp_path_factory.mktemp("serve") / "data"
    data_dir.mkdir()
    shutil.copy(sqlite_template, data_dir / "agentjobs.db")
    admin = CommandLine(data_dir)
    with admin.running("serve", "--port", "0") as running:
        yield admin, running


@pytest.fixture
def url(service: tuple[CommandLine, RunningService]) -> str:
    return service[1].base_url.removesuffix("/v1")


@pytest.fixture
def key(service: tuple[CommandLine, RunningService]) -> str:
    return service[0]("keys", "create").out.strip()


@pytest.fixture
def user(tmp_path: Path) -> CommandLine:
    """Someone without a store, whose credentials are in `tmp_path`."""
    return CommandLine(tmp_path / "none")


def credentials(user: CommandLine) -> Path:
    return Path(user.settings["XDG_CONFIG_HOME"]) / "agentjobs" / "credentials.toml"


def names(listed: CommandResult) -> dict[str, bool]:
    return {context["name"]: context["current"] for context in listed.document["contexts"]}


def test_a_user_logs_in_lists_jobs_and_logs_out(user, url, key):
    logged_in = user("login", url, "--name", "here", typed=f"{key}\n")
    assert (logged_in.exit_code, logged_in.out) == (0, "here\n"), logged_in.err
    assert key not in logged_in.err
    assert stat.S_IMODE(credentials(user).stat().st_mode) == 0o600
    assert user("jobs", "list", "--json").document == {"jobs": []}

    logged_out = user("logout")
    assert (logged_out.exit_code, logged_out.out) == (0, "here\n")
    assert key not in credentials(user).read_text()
    refused = user("jobs", "list")
    assert (refused.exit_code, "agentjobs login" in refused.err) == (2, True)
    assert user("logout").exit_code == 2


def test_contexts_are_listed_selected_and_removed_without_showing_keys(user, url, key, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text(f"{key}\n")
    for name in ("one", "two"):
        done = user("login", url, "--name", name, "--key-file", str(key_file), "--json")
        assert done.document["name"] == name
    listed = user("contexts", "list", "--json")
    assert names(listed) == {"one": False, "two": True}
    assert key not in listed.out
    assert user("contexts", "use", "one", "--json").document["current"] is True
    assert names(user("contexts", "list", "--json")) == {"one": True, "two": False}
    assert user("jobs", "list", "--context", "two", "--json").document == {"jobs": []}
    assert user.with_settings(AGENTJOBS_CONTEXT="two")("jobs", "list").exit_code == 0
    assert user("contexts", "remove", "one").out == "one\n"
    assert names(user("contexts", "list", "--json")) == {"two": False}
    assert "contexts use NAME" in user("jobs", "list").err
    for command in (("contexts", "use", "one"), ("jobs", "list", "--context", "one")):
        refused = user(*command)
        assert (refused.exit_code, "There is no context 'one'" in refused.err) == (2, True)


def test_a_key_that_does_not_work_is_not_stored(user, url):
    refused = user("login", url, typed="ajk_wrong\n")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "refused the API key" in refused.err
    assert refused.err.count("\n") == 1
    assert not credentials(user).exists()


@pytest.mark.parametrize("typed", ["", "\n", "two\nlines\n", "é\n"])
def test_an_unusable_key_is_one_line(user, url, typed):
    refused = user("login", url, typed=typed)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_the_key_of_the_environment_is_used_and_the_user_is_told(user, url, key):
    with_key = user.with_settings(AGENTJOBS_API_KEY=key, AGENTJOBS_URL="http://127.0.0.1:9")
    logged_in = with_key("login", url)
    assert logged_in.exit_code == 0
    assert "AGENTJOBS_API_KEY" in logged_in.err
    assert "As long as AGENTJOBS_URL is set" in logged_in.err
    # Named after the host.
    assert user("jobs", "list", "--context", url.removeprefix("http://")).exit_code == 0


def test_a_piped_key_is_used_instead_of_that_of_the_environment(user, url, key):
    with_other_key = user.with_settings(AGENTJOBS_API_KEY="ajk_other")
    logged_in = with_other_key("login", url, typed=key)
    assert logged_in.exit_code == 0, logged_in.err
    assert "AGENTJOBS_API_KEY" not in logged_in.err


def test_errors_name_the_context_that_was_used(service, user, url, key):
    assert user("login", url, "--name", "here", typed=key).exit_code == 0
    missing = user("jobs", "show", "job_0")
    assert missing.err.rstrip().endswith(f"(context here: {url})")
    key_id = service[0]("keys", "list", "--json").document["keys"][-1]["id"]
    assert service[0]("keys", "revoke", key_id).exit_code == 0
    revoked = user("jobs", "list")
    while revoked.exit_code == 0:
        # Another process notices within a second.
        revoked = user("jobs", "list")
    assert (revoked.exit_code, revoked.err.count("\n")) == (2, 1)
    assert f"{url} refused the API key (context here)" in revoked.err
    assert "agentjobs login" in revoked.err


def test_address_and_key_are_asked_for_on_a_terminal_without_an_echo(user, url, key):
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "login"],
        env=user.environment,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        start_new_session=True,
        text=True,
    ) as process:
        os.close(terminal)
        screen = read_until(controller, b"]: ")
        os.write(controller, f"{url}\n".encode())
        screen += read_until(controller, b"dashboard): ")
        os.write(controller, f"{key}\n".encode())
        screen += read_until(controller, b"(organization default).")
        assert process.stdout is not None
        assert process.stdout.read() == f"{url.removeprefix('http://')}\n"
        assert process.wait(60) == 0
    os.close(controller)
    assert key.encode() not in screen


def read_until(controller: int, end: bytes) -> bytes:
    screen = b""
    while end not in screen:
        screen += os.read(controller, 4096)
    return screen
