"""Which bytes of a tunnel are forwarded, depending on the name in its TLS handshake."""

import asyncio

import pytest

from agentjobs.outbound.egress import server_name
from agentjobs.outbound.egress.client_hello import ClientHelloError
from agentjobs.outbound.egress.server_name import copy_checked
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


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"\x16\x02"])
async def test_port_443_requires_tls_and_other_ports_do_not(data: bytes) -> None:
    with pytest.raises(ClientHelloError, match="not TLS"):
        await forward(data)

    assert (await forward(data, port=22)).received == data


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
