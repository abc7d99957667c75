"""Git transport to a platform: real git and TLS through the guard; no token in an argument."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote, basic_authorization
from agentjobs_runtime.outbound.guard.addresses import AllowList
from tests.support.git_commands import git_output, make_repository
from tests.support.git_server import until
from tests.support.https_git_server import HttpsOrigin, https_origin, silent_server
from tests.support.workspace_git_server import OriginServer, origin_server

HERE = AllowList.parse(["127.0.0.0/8"])
SHOWN = basic_authorization("x-access-token", "ghs_s3cret")


@pytest.fixture
def served(tmp_path: Path) -> Path:
    source = make_repository(tmp_path / "source")
    (tmp_path / "served").mkdir()
    git_output("clone", "-q", "--bare", str(source), "shop.git", cwd=tmp_path / "served")
    git_output("config", "http.receivepack", "true", cwd=tmp_path / "served" / "shop.git")
    return tmp_path / "served"


@pytest.fixture
def secure(served: Path) -> Iterator[HttpsOrigin]:
    with https_origin(served) as origin:
        origin.origin.required_authorization = SHOWN
        yield origin


@pytest.fixture
def plain(served: Path) -> Iterator[OriginServer]:
    with origin_server(served) as origin:
        origin.required_authorization = SHOWN
        yield origin


def to_here(_: str) -> Sequence[str]:
    return ["127.0.0.1"]


async def run(remote: Remote, *arguments: str, cwd: Path | None = None) -> str:
    ran = await git(
        *arguments,
        git_dir=cwd,
        configuration=remote.configuration,
        environment=remote.environment,
        protocols=NETWORK_PROTOCOLS,
    )
    return ran.stdout.decode()


async def heads(transport: GitTransport, url: str) -> str:
    async with transport.connect(url, SHOWN) as remote:
        return await run(remote, "ls-remote", remote.url, "refs/heads/main")


async def test_git_fetches_and_pushes_over_https_with_the_given_credential(
    secure: HttpsOrigin, tmp_path: Path
) -> None:
    transport = GitTransport(HERE, secure.authorities, lookup=to_here)
    url = secure.url("shop.git", "git.test")
    assert "refs/heads/main" in await heads(transport, url)
    async with transport.connect(url, SHOWN) as remote:
        git_dir = tmp_path / "source" / ".git"
        await run(remote, "push", "-q", remote.url, "main:refs/heads/new", cwd=git_dir)
        # One connection may serve several commands.
        assert "refs/heads/new" in await run(remote, "ls-remote", remote.url)
    assert "ghs_s3cret" not in repr(remote)
    assert SHOWN not in repr(remote)
    with pytest.raises(GitError):
        await run(remote, "ls-remote", remote.url)


async def test_a_private_address_is_refused_unless_the_operator_lists_it(
    secure: HttpsOrigin,
) -> None:
    transport = GitTransport(AllowList(), secure.authorities, lookup=to_here)
    for host in ("git.test", "127.0.0.1"):
        with pytest.raises(PlatformError, match="AGENTJOBS_EGRESS_ALLOW") as refused:
            await heads(transport, secure.url("shop.git", host))
        assert (refused.value.fault, refused.value.is_temporary) == ("unusable", False)
    assert secure.origin.requests == []


async def test_an_unresponsive_host_is_unavailable_and_other_errors_are_gits(
    secure: HttpsOrigin, unused_tcp_port: int
) -> None:
    transport = GitTransport(HERE, secure.authorities, lookup=to_here)
    with pytest.raises(PlatformError, match="could not be reached") as away:
        await heads(transport, f"https://git.test:{unused_tcp_port}/shop.git")
    assert away.value.is_temporary
    with pytest.raises(GitError, match="not found"):
        await heads(transport, secure.url("none.git", "git.test"))
    with pytest.raises(GitError, match="certificate"):
        await heads(GitTransport(HERE, lookup=to_here), secure.url("shop.git", "git.test"))


async def test_a_fetch_beyond_the_limit_is_refused_with_a_reason(secure: HttpsOrigin) -> None:
    transport = GitTransport(HERE, secure.authorities, max_bytes=100, lookup=to_here)
    with pytest.raises(PlatformError, match="larger than"):
        await heads(transport, secure.url("shop.git", "git.test"))


async def test_plain_http_goes_only_to_allowed_addresses_and_names_are_resolved_once(
    plain: OriginServer,
) -> None:
    # No resolver on this machine knows the name: git uses the address from `lookup`.
    url = f"http://forge.invalid:{plain.server_port}/shop.git"
    queried = []

    def lookup(host: str) -> Sequence[str]:
        queried.append(host)
        return ["127.0.0.1"]

    assert "refs/heads/main" in await heads(GitTransport(HERE, lookup=lookup), url)
    assert queried == ["forge.invalid"]
    assert "refs/heads/main" in await heads(GitTransport(HERE), plain.url("shop.git"))


@pytest.mark.parametrize(
    ("allowed", "addresses"),
    [
        (AllowList(), ["127.0.0.1"]),
        (AllowList(), ["93.184.215.14"]),
        (HERE, ["93.184.215.14"]),
        (HERE, ["127.0.0.1", "93.184.215.14"]),
        (HERE, ["127.0.0.1", "::1"]),
    ],
)
async def test_plain_http_to_other_addresses_never_sends_the_token(
    plain: OriginServer, allowed: AllowList, addresses: list[str]
) -> None:
    url = f"http://forge.invalid:{plain.server_port}/shop.git"
    transport = GitTransport(allowed, lookup=lambda _: addresses)
    for request in (heads(transport, url), transport.refuse_plain_http(url)):
        with pytest.raises(PlatformError, match=r"https.*AGENTJOBS_EGRESS_ALLOW") as refused:
            await request
        assert refused.value.fault == "unusable"
    assert plain.requests == []
    await transport.refuse_plain_http(url.replace("http://", "https://"))


async def test_the_token_is_in_no_argument_of_any_process(secure: HttpsOrigin) -> None:
    transport = GitTransport(HERE, secure.authorities, lookup=to_here)
    async with silent_server() as (port, connected):
        task = asyncio.create_task(heads(transport, f"https://git.test:{port}/shop.git"))
        try:
            await asyncio.wait_for(connected.wait(), 20)
            await until(lambda: len(children_of_git()) > 1)
            processes = children_of_git()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    encoded = SHOWN.removeprefix("Basic ")
    arguments = "\n".join(arguments for arguments, _ in processes)
    assert "remote-https" in arguments
    assert any(encoded in environment for _, environment in processes)
    for secret in (encoded, "ghs_s3cret", "agentjobs:"):
        assert secret not in arguments


def children_of_git() -> list[tuple[str, str]]:
    """Arguments and environment of every git process below this process."""
    processes: dict[int, tuple[str, str]] = {}
    parents = {os.getpid()}
    pids = sorted(
        int(directory.name) for directory in Path("/proc").iterdir() if directory.name.isdigit()
    )
    for pid in pids:
        with contextlib.suppress(OSError):
            directory = Path(f"/proc/{pid}")
            parent = int(
                (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
            )
            arguments = (
                (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            if parent in parents and "git" in arguments:
                parents.add(pid)
                processes[pid] = (
                    arguments,
                    (directory / "environ").read_bytes().decode(errors="replace"),
                )
    return list(processes.values())


async def test_a_pack_on_another_host_is_not_fetched(
    plain: OriginServer, secure: HttpsOrigin, tmp_path: Path
) -> None:
    """Git fetches what a response names as `packfile-uris`, although it requested none."""
    async with silent_server() as (port, connected):
        for origin in (plain, secure.origin):
            origin.pack_url = f"http://127.0.0.1:{port}/internal.pack"
        transport = GitTransport(HERE, secure.authorities)
        for number, url in enumerate((plain.url("shop.git"), secure.url("shop.git"))):
            git_dir = tmp_path / f"{number}.git"
            await git("init", "--quiet", "--bare", str(git_dir))
            async with transport.connect(url, SHOWN) as remote:
                with pytest.raises(GitError, match="failed to get 'http' url"):
                    async with asyncio.timeout(20):
                        await run(remote, "fetch", remote.url, "main", cwd=git_dir)
        assert not connected.is_set()
