"""Addresses that do not lead to the service: every failure is a clear ClientError."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from socket import create_server

import pytest
import trustme

from agentjobs_client import (
    AsyncClient,
    Client,
    ClientError,
    ServiceUnreachable,
    TlsFailed,
    UnexpectedAnswer,
)
from tests.support.scripted_server import Listen, http, scripted_servers, server_tls

KEY = "ajk_test"


AGENTS = http('{"agents": []}')
PAGE = "<h1>Sign in</h1>"


@pytest.fixture
def listen() -> Iterator[Listen]:
    with scripted_servers() as start:
        yield start


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path / "ca.pem"


def ask(url: str, asynchronous: bool = False, **options) -> object:
    async def pause(_: float) -> None:
        pass

    async def ask_async() -> object:
        async with AsyncClient(url, KEY, pause=pause, **options) as client:
            return await client.agents()

    if asynchronous:
        return asyncio.run(ask_async())
    with Client(url, KEY, pause=lambda _: None, **options) as client:
        return client.agents()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (http(PAGE, media_type="text/html"), UnexpectedAnswer, "web page with status 200"),
        (http(PAGE, "502 Bad Gateway", "text/html"), UnexpectedAnswer, "web page with status 502"),
        (
            http("", "301 Moved", "text/html", "Location: https://jobs.example/"),
            UnexpectedAnswer,
            "redirected to https://jobs.example/",
        ),
        (http("no", "403 Forbidden", "text/plain"), UnexpectedAnswer, "returned 403"),
        (
            http("abc", "200 OK", "application/json", "Content-Encoding: gzip"),
            UnexpectedAnswer,
            "cannot be decoded",
        ),
        (AGENTS[:-4], ServiceUnreachable, "cut off"),
        (b"", ServiceUnreachable, "if it uses TLS, the address must start with https"),
        (b"220 mail.example ESMTP\r\n", ServiceUnreachable, "cannot be reached"),
    ],
    ids=["page", "proxy", "redirect", "text", "encoding", "cut", "closed", "mail"],
)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_what_is_not_the_service_is_named(listen, answer, kind, message, asynchronous):
    with pytest.raises(kind, match=message):
        ask(f"http://127.0.0.1:{listen(answer)}", asynchronous)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_port_where_nothing_listens_is_unreachable(asynchronous):
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ServiceUnreachable, match=f"http://127.0.0.1:{port}/v1/ cannot be reached"):
        ask(f"http://127.0.0.1:{port}", asynchronous)


def test_a_host_that_is_unknown_is_unreachable():
    with pytest.raises(ServiceUnreachable, match=r"no-such-host\.invalid"):
        ask("http://no-such-host.invalid")


def test_tls_to_a_port_without_it_is_not_retried_and_names_the_other_address(listen):
    port = listen(AGENTS)
    with pytest.raises(TlsFailed, match=f"try http://127.0.0.1:{port}"):
        ask(f"https://127.0.0.1:{port}")


def test_no_tls_to_a_port_with_it_says_how_the_address_must_start(listen, authority):
    with pytest.raises(ServiceUnreachable, match="must start with https://"):
        ask(f"http://127.0.0.1:{listen(AGENTS, tls=server_tls(authority))}")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_unknown_authority_is_trusted_once_it_is_named(
    listen, authority, ca_file, monkeypatch, asynchronous
):
    url = f"https://127.0.0.1:{listen(AGENTS, tls=server_tls(authority))}"
    with pytest.raises(TlsFailed, match="`ca_file`, AGENTJOBS_CA_FILE or"):
        ask(url, asynchronous)
    assert ask(url, asynchronous, ca_file=ca_file) == []
    for variable in ("SSL_CERT_FILE", "AGENTJOBS_CA_FILE"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(ca_file))
            assert ask(url, asynchronous) == []


def test_a_certificate_for_another_name_is_refused(listen, authority, ca_file):
    url = f"https://127.0.0.1:{listen(AGENTS, tls=server_tls(authority, 'other.example'))}"
    with pytest.raises(TlsFailed, match="use the name that the certificate was issued for"):
        ask(url, ca_file=ca_file)


def test_an_expired_certificate_may_be_a_clock_that_is_off(listen, authority, ca_file):
    expired = server_tls(authority, not_after=datetime(2020, 1, 1))  # noqa: DTZ001 - trustme's form
    with pytest.raises(TlsFailed, match="check the clock of this machine"):
        ask(f"https://127.0.0.1:{listen(AGENTS, tls=expired)}", ca_file=ca_file)


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), ("hello", "it has none in PEM format")]
)
def test_a_file_without_certificates_is_refused(tmp_path, content, reason, monkeypatch):
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)
    with pytest.raises(ClientError, match=rf"ca\.pem: no certificates could be read: {reason}"):
        ask("https://127.0.0.1:1", ca_file=file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ClientError, match=r"ca\.pem: no certificates could be read"):
        ask("https://127.0.0.1:1")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "ftp://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_refused(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ClientError, match="the proxy in HTTP_PROXY"):
        ask("http://jobs.example")


def test_a_proxy_that_is_away_is_named_without_its_password(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://ada:secret@127.0.0.1:1")
    with pytest.raises(ServiceUnreachable, match=r"through the proxy 127\.0\.0\.1:1") as caught:
        ask("http://jobs.example")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://xn--a.example",
        f"http://{'a' * 300}.example",
        "http://127.0.0.1:1/?x=1",
    ],
)
def test_an_address_that_cannot_exist_is_refused(url):
    with pytest.raises(ClientError, match="not a valid"):
        ask(url)


def test_an_address_with_a_password_is_refused_without_showing_it():
    with pytest.raises(ClientError, match="not a valid base URL") as caught:
        ask("http://ada:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)
