"""Bytes that are no HTTP, too many of them, or too slow."""

import asyncio
import json

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from agentjobs.web.http_protocol import HttpProtocol


class Wire(asyncio.Transport):
    """The near end of a connection that nobody is at the far end of."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.was_closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True
        self.was_closed.set()

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def refusal(self) -> tuple[int, str]:
        head, _, body = self.written.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        error = json.loads(body)["error"]
        assert f"x-request-id: {error['request_id']}" in lines
        assert "connection: close" in lines
        return int(lines[0].split()[1]), error["code"]


async def never_called(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError


async def waits_for_body(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def answers_ok(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def connected(app: ASGIApp) -> tuple[HttpProtocol, Wire]:
    config = Config(app, http=HttpProtocol, lifespan="off", log_config=None)
    protocol = HttpProtocol(config=config, server_state=ServerState(), app_state={})
    wire = Wire()
    protocol.connection_made(wire)
    return protocol, wire


async def ended(protocol: HttpProtocol) -> None:
    """Until the application is done with every request it was given."""
    async with asyncio.timeout(5):
        while tasks := protocol.tasks:
            await asyncio.wait(set(tasks))


async def closed(wire: Wire) -> None:
    async with asyncio.timeout(5):
        await wire.was_closed.wait()


@pytest.mark.parametrize(
    "sent", [b"BREW /v1/jobs HTTP/1.1\r\n\r\n", b"\x00\x01\x02", b"GET /v1/jobs HTTP/9.x\r\n\r\n"]
)
async def test_what_is_no_http_is_refused_in_the_one_shape(sent: bytes) -> None:
    protocol, wire = connected(never_called)
    protocol.data_received(sent)
    assert wire.closed
    assert wire.refusal() == (400, "bad_request")
    protocol.connection_lost(None)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 15_000,
        b"GET / HTTP/1.1\r\na: " + b"b" * 70_000,
        b"GET /" + b"x" * 70_000,
        b"\r\n" * 40_000,
    ],
    ids=["many", "long", "address", "nothing"],
)
@pytest.mark.parametrize("piece_bytes", [1_000, 1_000_000])
async def test_an_endless_head_is_refused_in_the_one_shape(head: bytes, piece_bytes: int) -> None:
    protocol, wire = connected(never_called)
    for at in range(0, len(head), piece_bytes):
        if not wire.closed:
            protocol.data_received(head[at : at + piece_bytes])
    assert wire.closed
    assert wire.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)


async def test_a_large_head_that_comes_at_once_is_refused_too() -> None:
    protocol, wire = connected(never_called)
    protocol.data_received(b"GET / HTTP/1.1\r\na: " + b"b" * 70_000 + b"\r\n\r\n")
    assert wire.closed
    assert wire.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)


async def test_a_head_below_the_limit_is_taken_whatever_comes_with_it() -> None:
    protocol, wire = connected(answers_ok)
    head = b"POST / HTTP/1.1\r\na: " + b"b" * 60_000 + b"\r\ncontent-length: 100000\r\n\r\n"
    for _ in range(2):
        protocol.data_received(head + b"x" * 100_000)
        await ended(protocol)
    assert not wire.closed
    assert wire.written.count(b"200 OK") == 2
    protocol.connection_lost(None)


async def test_endless_trailers_are_refused() -> None:
    protocol, wire = connected(waits_for_body)
    protocol.data_received(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    for _ in range(70):
        if not wire.closed:
            protocol.data_received(b"a: b\r\n" * 200)
    assert wire.closed
    assert wire.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)
    await ended(protocol)


async def test_a_refusal_is_not_mistaken_for_the_answer_under_way() -> None:
    protocol, wire = connected(waits_for_body)
    protocol.data_received(b"GET / HTTP/1.1\r\n\r\n\x00\x01")
    assert wire.closed
    assert wire.written == b""
    protocol.connection_lost(None)
    await ended(protocol)


class TestPatience:
    @pytest.fixture(autouse=True)
    def _hurry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agentjobs.web.http_protocol.HEAD_SECONDS", 0.01)

    @pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\na: b\r\n", b"\r\n"])
    async def test_a_head_that_never_ends_is_given_up(self, sent: bytes) -> None:
        protocol, wire = connected(never_called)
        if sent:
            protocol.data_received(sent)
        await closed(wire)
        assert wire.written == b""
        protocol.connection_lost(None)

    @pytest.mark.parametrize("sent", [b"GET / HT", b"\r\n"])
    async def test_so_is_one_that_follows_an_answer(self, sent: bytes) -> None:
        protocol, wire = connected(answers_ok)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await ended(protocol)
        protocol.data_received(sent)
        await closed(wire)
        assert wire.written.count(b"HTTP/1.1") == 1
        protocol.connection_lost(None)

    async def test_an_answer_under_way_is_not_cut_by_the_start_of_another_request(self) -> None:
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await go_on.wait()
            await answers_ok(scope, receive, send)

        protocol, wire = connected(slow)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\nGET / HT")
        deadline = protocol._deadline
        assert deadline is not None
        async with asyncio.timeout(5):
            while protocol._deadline is deadline:  # noqa: ASYNC110 - a timer tells nobody
                await asyncio.sleep(0)
        assert not wire.closed
        go_on.set()
        await ended(protocol)
        assert b"200 OK" in wire.written
        protocol.connection_lost(None)
