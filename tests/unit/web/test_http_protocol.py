"""Bytes that are no HTTP."""

import asyncio
import json

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from agentjobs.web.http_protocol import HttpProtocol


class Wire(asyncio.Transport):
    """The near end of a connection that nobody is at the far end of."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True


async def never_called(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    "sent", [b"BREW /v1/jobs HTTP/1.1\r\n\r\n", b"\x00\x01\x02", b"GET /v1/jobs HTTP/9.x\r\n\r\n"]
)
async def test_what_is_no_http_is_refused_in_the_one_shape(sent: bytes) -> None:
    config = Config(never_called, http=HttpProtocol, lifespan="off", log_config=None)
    protocol = HttpProtocol(config=config, server_state=ServerState(), app_state={})
    wire = Wire()
    protocol.connection_made(wire)
    protocol.data_received(sent)
    head, _, body = wire.written.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    error = json.loads(body)["error"]
    assert wire.closed
    assert lines[0] == "http/1.1 400 bad request"
    assert f"x-request-id: {error['request_id']}" in lines
    assert error["code"] == "bad_request"
