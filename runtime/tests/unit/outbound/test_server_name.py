"""Which bytes of a tunnel are forwarded, depending on the host that its first message names."""

import asyncio

import pytest

from agentjobs_runtime.outbound.egress import server_name
from agentjobs_runtime.outbound.egress.client_hello import ClientHelloError
from agentjobs_runtime.outbound.egress.http_head import HeadError
from agentjobs_runtime.outbound.egress.server_name import copy_checked
from tests.support.tls_hello import client_hello, split_records, with_extension

HOST = "models.example"
HELLO = client_hello(HOST)
OTHER = client_hello("evil.example")
CHANGE_CIPHER_SPEC = b"\x14\x03\x03\x00\x01\x01"
APPLICATION_DATA = b"\x17\x03\x03\x00\x02ab"


class Sink:
    """Collects what the server would receive."""

    def __init__(self) -> None:
        self.received = b""
        self.has_ended = False
        self.is_aborted = False
        self.transport = self

    def abort(self) -> None:
        self.is_aborted = True

    def write(self, data: bytes) -> None:
        self.received += data

    async def drain(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write_eof(self) -> None:
        self.has_ended = True


async def forward(*chunks: bytes, host: str = HOST, port: int = 443) -> Sink:
    """Every chunk arrives only after the previous one was handled."""
    reader, sink = asyncio.StreamReader(), Sink()
    copying = asyncio.create_task(copy_checked(reader, sink, host, port))  # type: ignore[arg-type]
    for chunk in chunks:
        reader.feed_data(chunk)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    reader.feed_eof()
    try:
        await copying
    except ClientHelloError:
        assert OTHER not in sink.received
        raise
    except HeadError:
        assert sink.received == b""
        raise
    return sink


@pytest.mark.parametrize("port", [443, 8443])
@pytest.mark.parametrize(
    "chunks",
    [
        [HELLO, APPLICATION_DATA],
        [HELLO + APPLICATION_DATA],
        [HELLO, CHANGE_CIPHER_SPEC + APPLICATION_DATA],
        [HELLO, CHANGE_CIPHER_SPEC[:3], CHANGE_CIPHER_SPEC[3:], HELLO, APPLICATION_DATA],
        [bytes([byte]) for byte in HELLO + APPLICATION_DATA],
        [split_records(HELLO, [1, 2, 30]), APPLICATION_DATA],
        [client_hello("MODELS.example"), APPLICATION_DATA],
        [HELLO],
    ],
)
async def test_a_handshake_with_the_requested_name_is_forwarded(
    chunks: list[bytes], port: int
) -> None:
    sink = await forward(*chunks, port=port)

    assert sink.received == b"".join(chunks)
    assert sink.has_ended


@pytest.mark.parametrize("port", [443, 8443])
@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([OTHER], r"another server \(SNI\): evil\.example"),
        ([split_records(OTHER, [7])], "another server"),
        ([OTHER[:100], OTHER[100:]], "another server"),
        ([client_hello(None)], "no server"),
        ([client_hello(f"{HOST}.evil.example")], "another server"),
        ([client_hello("evil.example\n")], "another name"),
        ([with_extension(HELLO, 0xFE0D, b"x")], "ECH"),
        ([HELLO[:50]], "incomplete"),
        ([HELLO, OTHER], "another server"),
        ([HELLO, CHANGE_CIPHER_SPEC, OTHER], "another server"),
        ([HELLO + CHANGE_CIPHER_SPEC + OTHER], "another server"),
    ],
)
async def test_another_name_is_refused_before_it_is_sent(
    chunks: list[bytes], message: str, port: int
) -> None:
    with pytest.raises(ClientHelloError, match=message):
        await forward(*chunks, port=port)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.9 x\r\n",
        b"EHLO client.example\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"get /key\r\n",
        b"0030git-upload-pack /shop.git\0host=git.example\0",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
        b"\x16\x02",
        b"early",
        b'{"a": 1}' * 10_000 + b"\n",
    ],
)
async def test_other_protocols_pass_only_on_ports_of_their_own(data: bytes) -> None:
    with pytest.raises(ClientHelloError, match="not TLS"):
        await forward(data)
    with pytest.raises(HeadError, match="neither HTTP nor TLS"):
        await forward(data, port=80)

    assert (await forward(data, port=22)).received == data


async def test_port_443_refuses_plain_http() -> None:
    with pytest.raises(ClientHelloError, match="not TLS"):
        await forward(request(f"Host: {HOST}"))


def request(*lines: str, first: str = "GET / HTTP/1.1", body: bytes = b"") -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode() + body


@pytest.mark.parametrize("port", [80, 8080])
@pytest.mark.parametrize(
    "head",
    [
        request(f"Host: {HOST}"),
        request(f"host:\t{HOST.upper()}.:8080"),
        request(f"Host: {HOST}", f"Host: {HOST}"),
        request(f"Host: {HOST}", "Connection: keep-alive"),
        request(f"Host: {HOST}", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"),
        request(),
    ],
)
async def test_http_is_sent_with_the_host_of_the_tunnel_and_a_close(head: bytes, port: int) -> None:
    expected = request(f"Host: {HOST}" + (":8080" if port == 8080 else ""), "Connection: close")

    assert (await forward(head, port=port)).received == expected
    assert (await forward(*(bytes([byte]) for byte in head), port=port)).received == expected


async def test_http_of_the_first_version_needs_no_host() -> None:
    sink = await forward(request(first="GET /a HTTP/1.0"), port=80)

    assert sink.received == b"GET /a HTTP/1.0\r\nHost: models.example\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("port", [80, 8080])
@pytest.mark.parametrize(
    "head",
    [
        request("Host: evil.example"),
        request("Host: evil.example:80"),
        request(f"Host: {HOST}", "Host: evil.example"),
        request("Host: evil.example", f"Host: {HOST}"),
        request(f"Host: {HOST}", "HOST:evil.example"),
        request(f"Host: {HOST}.evil.example"),
        request(f"Host: {HOST}@evil.example"),
        request(f"Host: {HOST}, evil.example"),
        request("Host:"),
        request(f"Host: {HOST}", " evil.example"),
        request(f"Host: {HOST}", "Host : evil.example"),
        request(f"Host: {HOST}", "X: 1\nHost: evil.example"),
        request(f"Host: {HOST}", "X: 1\rHost: evil.example"),
        request(f"Host: {HOST}", first="GET http://evil.example/ HTTP/1.1"),
        request(f"Host: {HOST}", first="GET evil.example HTTP/1.1"),
        request(f"Host: {HOST}", first="CONNECT evil.example:443 HTTP/1.1"),
        request(f"Host: {HOST}", first="\r\nGET / HTTP/1.1"),
        request(f"Host: {HOST}", first="GET  / HTTP/1.1"),
        request(f"Host: {HOST}", first="GET\t/ HTTP/1.1"),
        request(f"Host: {HOST}", first="GET / HTTP/1.1 HTTP/1.1"),
        request(f"Host: {HOST}", first="GET / http/1.1"),
        request(first="GET http://evil.example/"),
        request(first="PRI * HTTP/2.0", body=b"SM\r\n\r\n"),
        request(f"Host: {HOST}", "Content-Length: 1", "Content-Length: 2"),
        request(f"Host: {HOST}", "Content-Length: 1", "Transfer-Encoding: chunked"),
        request(f"Host: {HOST}", "Transfer-Encoding: chunked, identity"),
        request(f"Host: {HOST}", "Content-Length: +1"),
        request(f"Host: {HOST}", f"X: {'x' * 20_000}"),
        request(f"Host: {HOST}", first=f"GET /{'x' * 20_000} HTTP/1.1"),
        request(f"Host: {HOST}", first=f"{'X' * 20_000} / HTTP/1.1"),
        request(f"Host: {HOST}", first="POST /\x01 HTTP/1.1"),
        b"GET / HTTP/1.1\nHost: evil.example\n\n",
        b"GET / HTTP/1.1\r\nHost: models.example\r\n",
    ],
)
async def test_http_that_names_another_host_or_is_ambiguous_is_not_sent(
    head: bytes, port: int
) -> None:
    with pytest.raises(HeadError):
        await forward(head, port=port)
    with pytest.raises(HeadError):
        await forward(head[:7], head[7:], port=port)


@pytest.mark.parametrize(
    ("length", "body"),
    [
        ([], b""),
        (["Content-Length: 0"], b""),
        (["Content-Length: 100000"], b"x" * 100_000),
        (
            ["Transfer-Encoding: chunked"],
            b"5\r\nhello\r\n186A0\r\n" + b"x" * 100_000 + b"\r\n0\r\n\r\n",
        ),
        (["Transfer-Encoding: chunked"], b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"),
    ],
)
async def test_nothing_after_the_body_of_one_http_request_is_sent(
    length: list[str], body: bytes
) -> None:
    head = request(f"Host: {HOST}", *length, first="POST / HTTP/1.1")
    expected = (
        request(f"Host: {HOST}", *length, "Connection: close", first="POST / HTTP/1.1") + body
    )
    second = request("Host: evil.example")

    assert (await forward(head + body + second, port=80)).received == expected
    assert (await forward(head, body, second, port=80)).received == expected
    assert (await forward(head, body[:9], body[9:] + second, port=80)).received == expected


async def test_an_invalid_chunk_ends_the_connection() -> None:
    head = request(f"Host: {HOST}", "Transfer-Encoding: chunked", first="POST / HTTP/1.1")

    sink = await forward(head + b"1;x=y\r\nx\r\n0\r\n\r\n" + request("Host: evil.example"), port=80)

    assert sink.is_aborted
    assert b"evil" not in sink.received


async def test_a_client_that_only_connects_is_not_refused() -> None:
    assert (await forward()).received == b""


async def test_an_address_needs_no_name() -> None:
    unnamed = client_hello(None)
    for host in ("192.0.2.1", "2001:db8::1"):
        assert (await forward(unnamed, host=host)).received == unnamed
        with pytest.raises(ClientHelloError, match="another server"):
            await forward(OTHER, host=host)


async def test_a_handshake_must_arrive_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_name, "HELLO_SECONDS", 0.01)
    reader = asyncio.StreamReader()
    reader.feed_data(HELLO[:20])
    with pytest.raises(ClientHelloError, match="within"):
        await copy_checked(reader, Sink(), HOST, 443)  # type: ignore[arg-type]
