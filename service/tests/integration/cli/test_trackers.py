"""`agentjobs trackers` as an operator types it, against Jira's contract server."""

import asyncio
import io
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.cli_process import CommandResult
from tests.support.forge_servers.jira import ACCOUNT, JiraServer
from tests.support.in_process_cli import InProcessCommandLine

Run = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
async def jira(tmp_path: Path) -> AsyncIterator[JiraServer]:
    async with JiraServer(tmp_path / "jira", is_cloud=True).serving() as server:
        yield server


@pytest.fixture
def agentjobs(
    tmp_path: Path, sqlite_template: Path, capsys: pytest.CaptureFixture[str], jira: JiraServer
) -> InProcessCommandLine:
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(
        capsys,
        tmp_path / "data",
        AGENTJOBS_EGRESS_ALLOW="127.0.0.1/32",
        AGENTJOBS_CA_FILE=str(jira.authorities),
    )


@pytest.fixture
def run(agentjobs: InProcessCommandLine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a thread; `typed` is its standard input."""

    async def command(*arguments: str, typed: str = "") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return await asyncio.to_thread(agentjobs, "trackers", *arguments)

    return command


async def test_a_tracker_is_added_listed_changed_and_removed(
    agentjobs: InProcessCommandLine, run: Run, jira: JiraServer
) -> None:
    where = ("--url", jira.url, "--flavour", "cloud", "--account", ACCOUNT)
    refused = await run("add", "jira", *where, typed="wrong-token\n")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "does not accept the email address and API token" in refused.err
    assert (await run("list", "--json")).document == {"trackers": []}

    added = await run("add", "jira", *where, "--link-back", "--json", typed=f"{jira.token}\n")
    assert added.document["known_as"] == ACCOUNT
    assert (added.document["flavour"], added.document["link_back"]) == ("cloud", True)
    issues = await run("add", "issues")
    assert (issues.exit_code, issues.out) == (0, "issues\n")
    listed = await run("list")
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["name", "jira", "issues"]
    assert "accepted" in listed.out

    checked = await run("check", "jira")
    assert (checked.exit_code, checked.out) == (0, "jira\n")
    assert ACCOUNT in checked.err
    assert "platforms check" in (await run("check", "issues")).err
    edited = await run("edit", "jira", "--no-link-back", "--json")
    assert edited.document["link_back"] is False

    # The token is revoked on Jira and then replaced here.
    old, jira.token = jira.token, "another-token"
    assert (await run("check", "jira")).exit_code == 2
    assert "does not accept" in (await run("list")).out
    assert (await run("rotate-token", "jira", typed="third-token")).exit_code == 2
    assert (await run("rotate-token", "jira", typed=f"{jira.token}\n")).exit_code == 0
    assert (await run("list", "--json")).document["trackers"][0]["error"] is None

    assert (await run("remove", "jira")).out == "jira\n"
    gone = await run("check", "jira")
    assert (gone.exit_code, gone.err.count("\n")) == (2, 1)
    stored = (agentjobs.data_dir / "agentjobs.db").read_bytes()
    assert old.encode() not in stored
    assert b"another-token" not in stored


@pytest.mark.parametrize(
    "arguments",
    [
        ("add",),
        ("add", "bugzilla"),
        ("add", "jira"),
        ("add", "jira", "--url", "https://jira.example.com", "--flavour", "server"),
        ("add", "jira", "--url", "https://acme.atlassian.net"),
        ("add", "jira", "--url", "http://jira.example.com"),
        ("edit", "jira"),
        ("check", "nothing"),
        ("remove", "nothing"),
    ],
    ids=" ".join,
)
async def test_what_cannot_be_done_is_refused_and_nothing_is_stored(
    run: Run, arguments: tuple[str, ...]
) -> None:
    refused = await run(*arguments, typed="token")
    assert refused.exit_code == 2
    assert "Traceback" not in refused.err
    assert (await run("list", "--json")).document == {"trackers": []}
