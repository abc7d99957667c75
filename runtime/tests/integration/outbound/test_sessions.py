"""The service's HTTP sessions connect only to permitted addresses."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from agentjobs_runtime.outbound.guard import sessions
from agentjobs_runtime.outbound.guard.addresses import AllowList, BlockedAddress
from agentjobs_runtime.outbound.guard.resolver import MAX_JOB_LOOKUPS, new_job_resolver
from agentjobs_runtime.outbound.guard.sessions import load_tls_context, new_session
from tests.support.silent_resolver import silent_resolver
from tests.support.web_server import WebServer, web_server

ENDS_WITH_LOOKUPS_UNDER_WAY = """
import asyncio, threading, uvloop
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.outbound.guard.resolver import new_job_resolver

begun = []

def never(host):
    begun.append(host)
    threading.Event().wait()

async def main():
    session = new_session(AllowList(), lookup=never)
    asking = [
        asyncio.create_task(new_job_resolver(never).resolve("a.test")),
        asyncio.create_task(session.get("http://a.test/")),
    ]
    while len(begun) < 2:
        await asyncio.sleep(0.01)
    await session.close()
    for one in asking:
        one.cancel()
    await asyncio.wait(asking)
"""
LOOPBACK = AllowList.parse(["127.0.0.1/32"])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WebServer]:
    async with web_server("localhost", "127.0.0.1", files=tmp_path) as server:
        yield server


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "0x7f.1", "169.254.169.254", "0.0.0.0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"),
    ],
)
async def test_no_spelling_of_an_internal_address_is_dialled(server: WebServer, host: str) -> None:
    async with new_session(AllowList()) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(f"http://{host}:{server.http_port}/hello")
    assert isinstance(caught.value.os_error, BlockedAddress)
    assert "AGENTJOBS_EGRESS_ALLOW" in str(caught.value.os_error)
    assert server.requests == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "0"])
async def test_numbers_that_look_like_a_name_are_refused(server: WebServer, host: str) -> None:
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{host}:{server.http_port}/hello")
    assert server.requests == []


async def test_a_permitted_address_is_reached(server: WebServer) -> None:
    async with new_session(LOOPBACK) as session:
        for host in ("127.0.0.1", "localhost"):
            async with session.get(f"http://{host}:{server.http_port}/hello") as answer:
                assert (await answer.text()).startswith("hello")


async def test_a_lookup_without_a_response_does_not_block_others(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LOOKUP_SECONDS", 0.05)
    with silent_resolver() as names:

        def lookup(host: str) -> Sequence[str]:
            return names.lookup(host) if host == "silent.test" else ["127.0.0.1"]

        async with asyncio.timeout(30), new_session(LOOPBACK, lookup=lookup) as session:
            for _ in range(sessions.MAX_LOOKUPS + 1):
                with pytest.raises(aiohttp.ClientConnectorError, match="was not resolved within"):
                    await session.get("http://silent.test/")
            url = f"http://good.test:{server.http_port}/hello"
            monkeypatch.undo()
            async with session.get(url) as answer:
                assert answer.status == 200
        assert names.lookups == ["silent.test"]


async def test_lookups_of_jobs_do_not_block_sessions(server: WebServer) -> None:
    with silent_resolver() as names:
        for _ in range(10):
            lookups = new_job_resolver(names.lookup)
            for n in range(MAX_JOB_LOOKUPS):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(lookups.resolve(f"{n}.test"), 0.01)
        url = f"http://localhost:{server.http_port}/hello"
        async with (
            asyncio.timeout(30),
            new_session(LOOPBACK) as session,
            session.get(url) as answer,
        ):
            assert answer.status == 200
        assert len(names.lookups) == 10 * MAX_JOB_LOOKUPS


@pytest.mark.parametrize("run", ["asyncio.run", "uvloop.run"])
def test_an_endless_lookup_does_not_delay_the_exit_of_the_process(run: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"{ENDS_WITH_LOOKUPS_UNDER_WAY}\n{run}(main())\nprint('ended')"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")


async def test_a_redirect_to_an_internal_address_is_not_dialled(server: WebServer) -> None:
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(
                f"http://127.0.0.1:{server.http_port}/away",
                params={"to": f"http://127.0.0.2:{server.http_port}/hello"},
            )
    assert isinstance(caught.value.os_error, BlockedAddress)


async def test_the_operators_certificate_authority_is_trusted(
    server: WebServer, tmp_path: Path
) -> None:
    url = f"https://127.0.0.1:{server.https_port}/hello"
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(url)
    authority = server.write_authority(tmp_path / "authority.pem")
    async with new_session(LOOPBACK, str(authority)) as session, session.get(url) as answer:
        assert answer.status == 200


async def test_a_proxy_of_the_environment_is_not_used(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    url = f"http://127.0.0.1:{server.http_port}/hello"
    async with new_session(LOOPBACK) as session, session.get(url) as answer:
        assert answer.status == 200


def test_certificates_are_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe cannot be read \(not a regular file\)"):
        load_tls_context(str(tmp_path / "pipe"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"cannot be read \(No such file or directory\)"),
        ("", "contains no certificate in PEM format"),
        ("no certificate", "contains no certificate in PEM format"),
        ("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", "a damaged certificate"),
    ],
)
def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=rf"AGENTJOBS_CA_FILE: .*authority\.pem .*{reason}"):
        load_tls_context(str(path))
