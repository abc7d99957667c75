"""`agentjobs platforms` as an operator types it, against each platform's contract server."""

import asyncio
import io
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentjobs.cli.doctor.platforms import check_platforms
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.opening import open_database
from agentjobs.tickets.trackers import NewTracker, add_tracker
from agentjobs_runtime.settings import load
from tests.support.cli_process import PROGRAM, CommandResult
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.faults import forbidden, missing
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.forge_servers.jira import JiraServer
from tests.support.in_process_cli import InProcessCommandLine

SERVERS: dict[str, type[ContractServer]] = {
    "github": GitHubServer,
    "gitlab": GitLabServer,
    "gitea": GiteaServer,
}


class Operator:
    """Runs commands in a thread while the platform's server runs in the event loop."""

    def __init__(self, command_line: InProcessCommandLine) -> None:
        self.command_line = command_line
        self.output = ""

    async def __call__(self, *arguments: str, typed: str = "") -> CommandResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
            answer = await asyncio.to_thread(self.command_line, "platforms", *arguments)
        self.output += answer.out + answer.err
        return answer


@pytest.fixture
def operator_at(
    tmp_path: Path, sqlite_template: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[ContractServer], Operator]]:
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")

    def operator(server: ContractServer) -> Operator:
        settings = {
            "AGENTJOBS_CA_FILE": str(server.authorities),
            "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8",
            "AGENTJOBS_PUBLIC_URL": "https://jobs.example.com",
        }
        return Operator(InProcessCommandLine(capsys, tmp_path / "data", **settings))

    return operator


@asynccontextmanager
async def platform(kind: str, place: Path) -> AsyncIterator[ContractServer]:
    server = SERVERS[kind](place / kind)
    server.add_repository("acme/shop", {"README.md": "Shop."})
    server.add_repository("acme/.github", {"README.md": "About."})
    server.add_repository("acme/old", {"README.md": "Old."}, is_archived=True)
    async with server.serving():
        yield server


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_platform_is_connected_looked_at_and_removed(
    kind: str, tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform(kind, tmp_path) as server:
        platforms = operator_at(server)
        address = ("--url", f"{server.url}/")
        refused = await platforms("add", kind, *address, typed="wrong-token-1\n")
        assert (refused.exit_code, refused.out) == (2, "")
        assert refused.err.splitlines()[-1].startswith("agentjobs: ")
        assert (await platforms("list", "--json")).document == {"platforms": []}

        added = await platforms("add", kind, *address, typed=f"{server.token}\n")
        assert added.exit_code == 0, added.err
        hook_secret = added.out.strip()
        assert len(hook_secret) == 64
        (listed,) = (await platforms("list", "--json")).document["platforms"]
        assert (listed["name"], listed["url"], listed["account"]) == (
            *(kind, server.url, server.state.account),
        )
        hook_url = f"https://jobs.example.com/hooks/{kind}/{listed['id']}"
        assert hook_url in added.err
        shown = (await platforms("show", kind, "--json")).document
        assert (shown["hook_url"], shown["connected_repositories"]) == (hook_url, 0)
        assert (await platforms("check", kind)).out == f"{server.state.account}\n"

        seen = {
            repo["full_name"]: repo
            for repo in (await platforms("repos", kind, "--json")).document["repos"]
        }
        assert seen["acme/shop"]["problem"] is None
        assert "archived" in seen["acme/old"]["problem"]
        some = await platforms("connect", kind, "acme/shop", "acme/none")
        assert (some.exit_code, some.out) == (1, "acme/shop\n")
        assert "acme/none is not connected" in some.err
        every = (await platforms("connect", kind, "--all", "--json")).document["repos"]
        assert {repo["full_name"]: (repo["problem"] or {}).get("code") for repo in every} == {
            "acme/shop": "repo_connected",
            "acme/.github": None,
            "acme/old": "repo_not_connectable",
        }
        assert "connected" in (await platforms("repos", kind)).out
        hooks = (await platforms("webhooks", kind, "--json")).document["webhooks"]
        # One repository was connected by name, the other with all.
        assert [(hook["repository"], hook["state"]) for hook in hooks] == [
            ("acme/.github", "pending"),
            ("acme/shop", "pending"),
        ]
        checked = (await platforms("check", kind, "--json")).document
        assert checked["webhooks"] == hooks
        off = await platforms("webhooks", kind, "acme/shop", "--remove", "--json")
        assert [hook["state"] for hook in off.document["webhooks"]] == ["removing"]
        assert "acme/.github" in (await platforms("webhooks", kind, "--register")).out
        in_use = await platforms("remove", kind)
        assert (in_use.exit_code, "2 repositories" in in_use.err) == (2, True)
        for name in ("acme/shop", "acme/.github"):
            done = await asyncio.to_thread(platforms.command_line, "repos", "disconnect", name)
            assert done.exit_code == 0, done.err
        assert (await platforms("remove", kind)).out == f"{kind}\n"
        # Each secret is printed at most once.
        assert platforms.output.count(hook_secret) == 1
        assert server.token not in platforms.output
        assert "wrong-token-1" not in platforms.output


async def test_new_secrets_replace_the_old_and_the_doctor_says_what_is_accepted(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("gitea", tmp_path) as server:
        platforms = operator_at(server)
        await platforms("add", "gitea", "--url", server.url, typed=server.token)
        first = (await platforms("rotate-hook-secret", "gitea")).out
        again = (await platforms("rotate-hook-secret", "gitea", "--json")).document
        assert len(first.strip()) == len(again["hook_secret"]) == 64
        assert first.strip() != again["hook_secret"]

        server.token = "a-newer-token"
        assert (await platforms("check", "gitea")).exit_code == 2
        (listed,) = (await platforms("list", "--json")).document["platforms"]
        assert listed["error"]
        settings = load(platforms.command_line.settings)
        db = await open_database(settings.effective_database_url, migrate=False)
        ((subject, state, message),) = await check_platforms(settings, db)
        assert (subject, state) == ("platforms", "problem")
        assert server.url in message
        no_app = await platforms("set-installation", "gitea", "9")
        assert (no_app.exit_code, "not connected with a GitHub App" in no_app.err) == (2, True)
        refused = await platforms("rotate-token", "gitea", typed="worse")
        assert refused.exit_code == 2
        replaced = await platforms("rotate-token", "gitea", typed="a-newer-token\n")
        assert (replaced.exit_code, replaced.out) == (0, "gitea\n")
        assert (await platforms("check", "gitea")).exit_code == 0
        ((_, state, text),) = await check_platforms(settings, db)
        assert state == "ok"
        assert "by agentjobs-bot <agentjobs-bot@example.com> and not signed" in text
        await db.close()
        assert "a-newer-token" not in platforms.output


async def test_an_app_is_connected_with_its_key_and_what_it_lacks_is_said(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("github", tmp_path) as server:
        assert isinstance(server, GitHubServer)
        platforms = operator_at(server)
        key_file = tmp_path / "app.pem"
        key_file.write_text(server.app.private_key)
        app = (
            *("--url", server.url, "--name", "app", "--app-id", str(server.app.id)),
            *("--installation-id", str(server.app.installation_id), "--private-key-file"),
        )
        halves = await platforms("add", "github", "--url", server.url, "--app-id", "1")
        assert (halves.exit_code, "needs --app-id" in halves.err) == (2, True)
        no_key = await platforms("add", "github", *app, "-", typed="not a key")
        assert (no_key.exit_code, "RSA key in PEM format" in no_key.err) == (2, True)
        del server.app.permissions["pull_requests"]
        added = await platforms("add", "github", *app, str(key_file), "--json")
        (lacking,) = added.document["missing_permissions"]
        assert "Pull requests" in lacking
        assert added.document["kind"] == "app"
        assert (await platforms("check", "app")).exit_code == 1
        # Installed again, it has another ID.
        server.app.installation_id = 9
        gone = await platforms("check", "app")
        assert (gone.exit_code, "platforms set-installation" in gone.err) == (2, True)
        wrong = await platforms("set-installation", "app", "10")
        assert (wrong.exit_code, "no installation 10" in wrong.err) == (2, True)
        moved = await platforms("set-installation", "app", "9", "--json")
        assert moved.document["installation_id"] == "9"
        assert (await platforms("check", "app")).exit_code == 1
        refused = await platforms("signing", "app", "ssh")
        assert (refused.exit_code, "use “platform” instead" in refused.err) == (2, True)
        signed = await platforms("signing", "app", "platform")
        assert "made and signed by the platform as agentjobs[bot]" in signed.err
        assert server.app.private_key.splitlines()[1] not in platforms.output


async def test_a_signing_key_is_created_registered_and_shown(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("gitea", tmp_path) as server:
        assert isinstance(server, GiteaServer)
        assert server.scopes is not None
        platforms = operator_at(server)
        await platforms("add", "gitea", "--url", server.url, typed=server.token)
        refused = await platforms("signing", "gitea", "ssh")
        assert refused.exit_code == 0
        assert "write:user" in refused.err
        assert f"Add it at {server.url}/user/settings/keys" in refused.err
        server.scopes.add("write:user")
        added = await platforms("signing", "gitea", "ssh")
        assert added.out == refused.out
        assert [key["key"] for key in server.state.ssh_keys] == [added.out.strip()]
        shown = await platforms("signing", "gitea", "--json")
        assert shown.document["signing_public_key"] == added.out.strip()
        assert "signed with the SSH key SHA256:" in (await platforms("check", "gitea")).err
        token = await platforms("sign-token", "gitea", "0123456789abcdef")
        assert token.out.startswith("-----BEGIN SSH SIGNATURE-----")
        nonsense = await platforms("signing", "gitea", "none", "--new-key")
        assert (nonsense.exit_code, "the mode ssh" in nonsense.err) == (2, True)
        assert (await platforms("signing", "gitea", "none")).out == ""
        assert "PRIVATE KEY" not in platforms.output


async def test_what_cannot_be_asked_is_refused_in_a_line_that_says_what_to_do(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("gitlab", tmp_path) as server:
        platforms = operator_at(server)
        plain_http = server.url.replace("https", "http")
        closed = Operator(platforms.command_line.with_settings(AGENTJOBS_EGRESS_ALLOW=""))
        for operator, arguments, typed, message in (
            (platforms, ("add", "bitbucket"), "x", "github, gitlab, gitea"),
            (platforms, ("add", "gitea"), "x", "--url"),
            (platforms, ("add", "gitlab", "--url", server.url), "", "token is empty"),
            (
                platforms,
                ("add", "gitlab", "--url", f"https://me:x@{server.url[8:]}"),
                "x",
                "credential",
            ),
            (
                closed,
                ("add", "gitlab", "--url", server.url),
                server.token,
                "AGENTJOBS_EGRESS_ALLOW",
            ),
            (
                closed,
                ("add", "gitlab", "--url", plain_http),
                server.token,
                "AGENTJOBS_EGRESS_ALLOW",
            ),
            (platforms, ("connect", "gitlab"), "", "--all"),
            (platforms, ("connect", "gitlab", "a/b"), "", "platforms list"),
            (platforms, ("show", "gitlab"), "", "platforms list"),
        ):
            refused = await operator(*arguments, typed=typed)
            assert (refused.exit_code, refused.out) == (2, ""), arguments
            assert message in refused.err
            assert "unexpected" not in refused.err
            assert server.token not in refused.err
        assert server.calls == []

        assert (
            await platforms("add", "gitlab", "--url", server.url, typed=server.token)
        ).exit_code == 0
        server.next(forbidden("insufficient_scope", on="GET /projects"))
        denied = await platforms("repos", "gitlab")
        assert (denied.exit_code, denied.out) == (2, "")
        server.next(missing(on="GET /projects/"))
        gone = await platforms("connect", "gitlab", "acme/shop", "--json")
        assert (gone.exit_code, '"forge_gone"' in gone.out) == (1, True)


async def test_a_connection_whose_secret_nobody_could_read_is_taken_back(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("gitea", tmp_path) as server:
        platforms = operator_at(server)
        adding = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'exec "$@" >/dev/full', "sh"),
            *(*PROGRAM, "platforms", "add", "gitea", "--url", server.url),
            env=platforms.command_line.environment,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await adding.communicate(server.token.encode())
        assert adding.returncode == 2
        assert "removed again" in stderr.decode()
        assert server.token not in stderr.decode()
        assert (await platforms("list", "--json")).document == {"platforms": []}


async def test_the_doctor_looks_at_trackers_too(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with JiraServer(tmp_path / "jira", is_cloud=False).serving() as jira:
        platforms = operator_at(jira)
        await platforms("list")
        settings = load(platforms.command_line.settings)
        db = await open_database(settings.effective_database_url, migrate=False)
        assert [state for _, state, _ in await check_platforms(settings, db)] == ["note"]
        for name, token in (("good", jira.token), ("bad", "wrong-token-1")):
            new = NewTracker(
                kind="jira", name=name, url=jira.url, token=token, flavour="data-center"
            )
            await add_tracker(db, SealingKeys.load(settings), "default", new)
        findings = await check_platforms(settings, db)
        assert [(subject, state) for subject, state, _ in findings] == [
            ("trackers", "ok"),
            ("trackers", "problem"),
        ]
        other = load({**platforms.command_line.settings, "AGENTJOBS_ENCRYPTION_KEY": "ab" * 32})
        (settings.data_path / "encryption.key").unlink()
        locked = await check_platforms(other, db)
        assert all("which this machine does not have" in message for _, _, message in locked)
        await db.close()


async def test_webhooks_are_chosen_when_repositories_are_connected(
    tmp_path: Path, operator_at: Callable[[ContractServer], Operator]
) -> None:
    async with platform("gitea", tmp_path) as server:
        platforms = operator_at(server)
        await platforms("add", "gitea", "--url", server.url, typed=f"{server.token}\n")
        done = await platforms("connect", "gitea", "acme/shop", "--no-webhooks")
        assert done.exit_code == 0, done.err
        assert (await platforms("webhooks", "gitea", "--json")).document == {"webhooks": []}
        await platforms("connect", "gitea", "acme/.github", "--with-webhooks")
        checked = await platforms("check", "gitea")
        assert "acme/.github: its webhook is not registered yet." in checked.err
        both = await platforms("webhooks", "gitea", "--register", "--remove")
        assert both.exit_code == 2
