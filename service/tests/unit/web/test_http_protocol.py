"""Requests that are not HTTP, too large or too slow."""

import asyncio
import json

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from agentjobs.web.exchange import WHOLE_BODY, WRITER
from agentjobs.web.http_protocol import HttpProtocol


class FakeTransport(asyncio.Transport):
    """A transport that records what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.close_called = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True
        self.close_called.set()

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


COMMON_HEADERS = ((b"content-type", b"text/plain"), (b"cache-control", b"no-store"))


async def never_called(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError


async def read_body(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond_ok(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [
        *COMMON_HEADERS,
        (b"ratelimit-limit", b"5"),
        (b"content-length", b"2"),
        (b"x-request-id", b"req_1"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def respond_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    """Writes the whole response if the protocol can, with ASGI messages otherwise."""
    body = bytes(scope.get(WHOLE_BODY) or b"") or b"ok"
    if not scope[WRITER](200, COMMON_HEADERS, b"ratelimit-limit: 5\r\n", b"req_1", body):
        await respond_ok(scope, receive, send)


def connect(app: ASGIApp) -> tuple[HttpProtocol, FakeTransport]:
    config = Config(app, http=HttpProtocol, lifespan="off", log_config=None)
    protocol = HttpProtocol(config=config, server_state=ServerState(), app_state={})
    transport = FakeTransport()
    protocol.connection_made(transport)
    return protocol, transport


async def wait_for_requests(protocol: HttpProtocol) -> None:
    """Waits until the application has finished every request."""
    async with asyncio.timeout(30):
        while tasks := protocol.tasks:
            await asyncio.wait(set(tasks))


async def wait_until_closed(transport: FakeTransport) -> None:
    async with asyncio.timeout(30):
        await transport.close_called.wait()


@pytest.mark.parametrize(
    "sent", [b"BREW /v1/jobs HTTP/1.1\r\n\r\n", b"\x00\x01\x02", b"GET /v1/jobs HTTP/9.x\r\n\r\n"]
)
async def test_invalid_http_is_refused_with_the_error_shape(sent: bytes) -> None:
    protocol, transport = connect(never_called)
    protocol.data_received(sent)
    assert transport.closed
    assert transport.refusal() == (400, "bad_request")
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
async def test_an_endless_head_is_refused_with_the_error_shape(
    head: bytes, piece_bytes: int
) -> None:
    protocol, transport = connect(never_called)
    for at in range(0, len(head), piece_bytes):
        if not transport.closed:
            protocol.data_received(head[at : at + piece_bytes])
    assert transport.closed
    assert transport.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)


async def test_a_large_head_in_one_chunk_is_refused() -> None:
    protocol, transport = connect(never_called)
    protocol.data_received(b"GET / HTTP/1.1\r\na: " + b"b" * 70_000 + b"\r\n\r\n")
    assert transport.closed
    assert transport.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)


async def test_a_head_below_the_limit_is_accepted_with_a_large_body() -> None:
    protocol, transport = connect(respond_ok)
    head = b"POST / HTTP/1.1\r\na: " + b"b" * 60_000 + b"\r\ncontent-length: 100000\r\n\r\n"
    for _ in range(2):
        protocol.data_received(head + b"x" * 100_000)
        await wait_for_requests(protocol)
    assert not transport.closed
    assert transport.written.count(b"200 OK") == 2
    protocol.connection_lost(None)


async def test_endless_trailers_are_refused() -> None:
    protocol, transport = connect(read_body)
    protocol.data_received(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    for _ in range(70):
        if not transport.closed:
            protocol.data_received(b"a: b\r\n" * 200)
    assert transport.closed
    assert transport.refusal() == (431, "headers_too_large")
    protocol.connection_lost(None)
    await wait_for_requests(protocol)


async def test_no_error_is_written_into_a_response_in_progress() -> None:
    protocol, transport = connect(read_body)
    protocol.data_received(b"GET / HTTP/1.1\r\n\r\n\x00\x01")
    assert transport.closed
    assert transport.written == b""
    protocol.connection_lost(None)
    await wait_for_requests(protocol)


class TestTimeouts:
    @pytest.fixture(autouse=True)
    def _short_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agentjobs.web.http_protocol.HEAD_SECONDS", 0.01)

    @pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\na: b\r\n", b"\r\n"])
    async def test_a_head_that_never_ends_times_out(self, sent: bytes) -> None:
        protocol, transport = connect(never_called)
        if sent:
            protocol.data_received(sent)
        await wait_until_closed(transport)
        assert transport.written == b""
        protocol.connection_lost(None)

    @pytest.mark.parametrize("sent", [b"GET / HT", b"\r\n"])
    async def test_a_second_head_that_never_ends_times_out(self, sent: bytes) -> None:
        protocol, transport = connect(respond_ok)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await wait_for_requests(protocol)
        protocol.data_received(sent)
        await wait_until_closed(transport)
        assert transport.written.count(b"HTTP/1.1") == 1
        protocol.connection_lost(None)

    async def test_the_start_of_another_request_does_not_time_out_a_response_in_progress(
        self,
    ) -> None:
        resume = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await resume.wait()
            await respond_ok(scope, receive, send)

        protocol, transport = connect(slow)
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\nGET / HT")
        deadline = protocol._deadline
        assert deadline is not None
        async with asyncio.timeout(30):
            while protocol._deadline is deadline:  # noqa: ASYNC110 - a timer emits no signal
                await asyncio.sleep(0)
        assert not transport.closed
        resume.set()
        await wait_for_requests(protocol)
        assert b"200 OK" in transport.written
        protocol.connection_lost(None)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"HEAD / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\n",
    ],
    ids=["get", "head", "old", "last", "pipelined"],
)
async def test_a_response_written_at_once_is_the_same_as_one_sent_in_messages(
    request_bytes: bytes,
) -> None:
    written = []
    for app in (respond_at_once, respond_ok):
        protocol, transport = connect(app)
        protocol.data_received(request_bytes)
        await wait_for_requests(protocol)
        written.append((transport.written, transport.closed))
        protocol.connection_lost(None)
    assert written[0] == written[1]


async def test_a_body_that_arrives_with_its_head_is_available_at_once() -> None:
    protocol, transport = connect(respond_at_once)
    head = b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n"
    protocol.data_received(head + b"whole")
    await wait_for_requests(protocol)
    assert transport.written.endswith(b"\r\n\r\nwhole")
    protocol.data_received(head + b"in ")
    protocol.data_received(b"pi")
    await wait_for_requests(protocol)
    assert transport.written.endswith(b"\r\n\r\nok")
    protocol.connection_lost(None)


async def test_an_idle_connection_is_closed_although_earlier_requests_kept_it_open() -> None:
    protocol, transport = connect(respond_at_once)
    protocol.timeout_keep_alive = 0.05
    for _ in range(2):
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await wait_for_requests(protocol)
    assert not transport.closed
    await wait_until_closed(transport)
    protocol.connection_lost(None)


async def test_a_connection_in_use_outlives_the_timeout_of_an_idle_one() -> None:
    protocol, transport = connect(respond_at_once)
    protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
    await wait_for_requests(protocol)
    protocol.data_received(b"GET / HTTP/1.1\r\n")
    protocol.timeout_keep_alive_handler()
    assert not transport.closed
    protocol.data_received(b"\r\n")
    await wait_for_requests(protocol)
    protocol.timeout_keep_alive_handler()
    assert not transport.closed
    protocol.connection_lost(None)
    assert protocol.timeout_keep_alive_task is None
