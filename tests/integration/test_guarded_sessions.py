"""The service's own HTTP sessions dial only addresses they may."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from agentjobs.outbound.addresses import Allowed, BlockedAddress
from agentjobs.outbound.connector import new_session, trusted_certificates
from tests.web_server import WebServer, web_server

LOOPBACK = Allowed.parse(["127.0.0.1/32"])


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
async def test_no_spelling_of_an_inner_address_is_dialled(server: WebServer, host: str) -> None:
    async with new_session(Allowed()) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(f"http://{host}:{server.http_port}/hello")
    assert isinstance(caught.value.os_error, BlockedAddress)
    assert "AGENTJOBS_EGRESS_ALLOW" in str(caught.value.os_error)
    assert server.seen == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "0"])
async def test_numbers_that_only_look_like_a_name_are_refused(server: WebServer, host: str) -> None:
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{host}:{server.http_port}/hello")
    assert server.seen == []


async def test_a_permitted_address_is_reached(server: WebServer) -> None:
    async with new_session(LOOPBACK) as session:
        for host in ("127.0.0.1", "localhost"):
            async with session.get(f"http://{host}:{server.http_port}/hello") as answer:
                assert (await answer.text()).startswith("hello")


async def test_a_redirect_to_an_inner_address_is_not_dialled(server: WebServer) -> None:
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(
                f"http://127.0.0.1:{server.http_port}/away",
                params={"to": f"http://127.0.0.2:{server.http_port}/hello"},
            )
    assert isinstance(caught.value.os_error, BlockedAddress)


async def test_an_authority_of_the_operators_own_is_trusted(
    server: WebServer, tmp_path: Path
) -> None:
    url = f"https://127.0.0.1:{server.https_port}/hello"
    async with new_session(LOOPBACK) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(url)
    authority = server.write_authority(tmp_path / "authority.pem")
    async with new_session(LOOPBACK, str(authority)) as session, session.get(url) as answer:
        assert answer.status == 200


async def test_a_proxy_of_the_environment_is_not_asked(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    url = f"http://127.0.0.1:{server.http_port}/hello"
    async with new_session(LOOPBACK) as session, session.get(url) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"AGENTJOBS_CA_FILE: .*authority\.pem"):
        trusted_certificates(str(path))
