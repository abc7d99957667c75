"""A scripted model server: the streaming protocols of OpenAI and Anthropic, for real clients.

Inside a test: `async with model_server([ModelReply(text="hi")]) as server`. As a separate process:
`python -m tests.support.model_server --script FILE --port 0` prints its address; the file is a
JSON list of replies, see `ModelReply`; `GET /requests` lists the requests. Every request gets the
first unused reply whose `when` it contains.
"""

import argparse
import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tests.support.model_messages import (
    PATHS,
    Body,
    Event,
    ModelReply,
    Tokens,
    encode_reply,
    failure,
    stream_reply,
    tokens_of,
)

MAX_BYTES = 64 * 1024 * 1024


class Received(msgspec.Struct, frozen=True):
    """A request as it arrived; header names in lower case."""

    path: str
    query: str
    headers: dict[str, str]
    body: Any


@dataclass
class ModelServer:
    replies: list[ModelReply]
    key: str = ""
    """If set, requests without it are rejected."""
    requests: list[Received] = field(default_factory=list)
    abandoned: list[Received] = field(default_factory=list)
    """Requests whose client disconnected before the response was complete."""
    billed: list[Tokens] = field(default_factory=list)
    """What every reply costs, also those that the client did not receive completely."""
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = msgspec.json.decode(raw)
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.path, request.query_string, headers, body)
        self.requests.append(received)
        if self.key and self.key not in _keys(headers):
            return _error_response(
                request.path, 401, f"Incorrect API key provided: {_keys(headers)}"
            )
        reply = self._next_reply(raw.decode())
        if reply is None:
            return _error_response(
                request.path, 400, "the script has no reply left for this request"
            )
        if reply.status >= 300:
            return _error_response(request.path, reply.status, reply.error, reply.headers)
        self.billed.append(tokens_of(reply, body))
        try:
            return await self._send_reply(request, reply, body)
        except (ConnectionError, asyncio.CancelledError):
            self.abandoned.append(received)
            raise

    def _next_reply(self, text: str) -> ModelReply | None:
        for number, reply in enumerate(self.replies):
            if reply.when in text and not (reply.unless and reply.unless in text):
                return reply if reply.always else self.replies.pop(number)
        return None

    async def _send_reply(
        self, request: web.Request, reply: ModelReply, body: Body
    ) -> web.StreamResponse:
        if body.get("stream"):
            return await _stream(request, reply, stream_reply(request.path, reply, body))
        if reply.hang_after is not None:
            await asyncio.Event().wait()
        if reply.cut_after is not None:
            _cut_connection(request)
        return _json(encode_reply(request.path, reply, body), 200, reply.headers)

    async def list_requests(self, _: web.Request) -> web.Response:
        return web.Response(
            body=msgspec.json.encode(self.requests), content_type="application/json"
        )

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BYTES)
        for path in PATHS:
            application.router.add_post(path, self.handle)
        application.router.add_get("/requests", self.list_requests)
        return application


def _keys(headers: dict[str, str]) -> tuple[str, ...]:
    candidates = (
        headers.get("authorization", "").removeprefix("Bearer "),
        headers.get("x-api-key", ""),
    )
    return tuple(key for key in candidates if key)


def _json(body: Body, status: int, headers: dict[str, str]) -> web.Response:
    headers = {"x-request-id": "req_1", "openai-organization": "the-operator", **headers}
    content = msgspec.json.encode(body)
    return web.Response(
        body=content, status=status, headers=headers, content_type="application/json"
    )


def _error_response(
    path: str, status: int, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    return _json(failure(path, status, message), status, headers or {})


async def _stream(
    request: web.Request, reply: ModelReply, events: Iterator[Event]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"x-request-id": "req_1", **reply.headers})
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    await response.prepare(request)
    for number, (name, data) in enumerate(events):
        if number == reply.cut_after:
            _cut_connection(request)
        if number == reply.hang_after:
            await asyncio.Event().wait()
        await response.write(_encode_event(name, data))
    await response.write_eof()
    return response


def _encode_event(name: str, data: Body | str) -> bytes:
    content = data.encode() if isinstance(data, str) else msgspec.json.encode(data)
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + content + b"\n\n"


def _cut_connection(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.close()
    raise ConnectionResetError("the script says so")


@asynccontextmanager
async def model_server(
    replies: Sequence[ModelReply],
    *,
    key: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[ModelServer]:
    server = ModelServer(list(replies), key)
    # A disconnect cancels the request immediately, as with the real providers.
    runner = web.AppRunner(
        server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        bound = runner.addresses[0][1]
        server.url = f"{'https' if tls else 'http'}://{host}:{bound}"
        yield server
    finally:
        await runner.cleanup()


@contextmanager
def model_process(script: Path, replies: Sequence[Body]) -> Iterator[str]:
    """The address of a server of its own, whose replies are written to the file `script`."""
    script.write_bytes(msgspec.json.encode(replies))
    command = [sys.executable, "-m", "tests.support.model_server", "--script", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def read_script(path: Path) -> list[ModelReply]:
    return msgspec.json.decode(path.read_bytes(), type=list[ModelReply])


async def _serve(arguments: argparse.Namespace) -> None:
    replies = read_script(arguments.script)
    async with model_server(
        replies, key=arguments.key, host=arguments.host, port=arguments.port
    ) as server:
        print(server.url, flush=True)  # noqa: T201 - the starting process reads the port here
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.model_server", description=__doc__
    )
    parser.add_argument("--script", type=Path, required=True, metavar="FILE")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default="", help="reject requests without this key")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
