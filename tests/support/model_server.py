"""A scripted model server: the streaming protocols of OpenAI and Anthropic, for real clients.

Inside a test: `async with model_server([Answer(text="hi")]) as server`. As a process of its own:
`python -m tests.support.model_server --script FILE --port 0` prints its address; the file is a
JSON list of answers, see `Answer`; `GET /requests` lists the requests. Every request takes the
first answer that is not used up and whose `when` it contains.
"""

import argparse
import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tests.support.model_messages import PATHS, Answer, Body, Event, failure, streamed, whole

MAX_BYTES = 64 * 1024 * 1024


class Received(msgspec.Struct, frozen=True):
    """A request as it arrived; header names in lower case."""

    path: str
    query: str
    headers: dict[str, str]
    body: Any


@dataclass
class ModelServer:
    answers: list[Answer]
    key: str = ""
    """If given, requests without it are refused."""
    requests: list[Received] = field(default_factory=list)
    left: list[Received] = field(default_factory=list)
    """Requests whose client went away before the answer was complete."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked = msgspec.json.decode(raw)
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.path, request.query_string, headers, asked)
        self.requests.append(received)
        if self.key and self.key not in _keys(headers):
            return _failed(request.path, 401, f"Incorrect API key provided: {_keys(headers)}")
        answer = self._take(raw.decode())
        if answer is None:
            return _failed(request.path, 400, "the script has no answer left for this request")
        if answer.status >= 300:
            return _failed(request.path, answer.status, answer.error, answer.headers)
        try:
            return await self._give(request, answer, asked)
        except (ConnectionError, asyncio.CancelledError):
            self.left.append(received)
            raise

    def _take(self, text: str) -> Answer | None:
        for number, answer in enumerate(self.answers):
            if answer.when in text and not (answer.unless and answer.unless in text):
                return answer if answer.always else self.answers.pop(number)
        return None

    async def _give(self, request: web.Request, answer: Answer, asked: Body) -> web.StreamResponse:
        if asked.get("stream"):
            return await _stream(request, answer, streamed(request.path, answer, asked))
        if answer.hang_after is not None:
            await asyncio.Event().wait()
        if answer.cut_after is not None:
            _cut(request)
        return _json(whole(request.path, answer, asked), 200, answer.headers)

    async def tell(self, _: web.Request) -> web.Response:
        return web.Response(
            body=msgspec.json.encode(self.requests), content_type="application/json"
        )

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BYTES)
        for path in PATHS:
            application.router.add_post(path, self.answer)
        application.router.add_get("/requests", self.tell)
        return application


def _keys(headers: dict[str, str]) -> tuple[str, ...]:
    given = (headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-api-key", ""))
    return tuple(key for key in given if key)


def _json(body: Body, status: int, headers: dict[str, str]) -> web.Response:
    headers = {"x-request-id": "req_1", "openai-organization": "the-operator", **headers}
    content = msgspec.json.encode(body)
    return web.Response(
        body=content, status=status, headers=headers, content_type="application/json"
    )


def _failed(
    path: str, status: int, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    return _json(failure(path, status, message), status, headers or {})


async def _stream(
    request: web.Request, answer: Answer, events: Iterator[Event]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"x-request-id": "req_1", **answer.headers})
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    await response.prepare(request)
    for number, (name, data) in enumerate(events):
        if number == answer.cut_after:
            _cut(request)
        if number == answer.hang_after:
            await asyncio.Event().wait()
        await response.write(_encoded(name, data))
    await response.write_eof()
    return response


def _encoded(name: str, data: Body | str) -> bytes:
    content = data.encode() if isinstance(data, str) else msgspec.json.encode(data)
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + content + b"\n\n"


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.close()
    raise ConnectionResetError("the script says so")


@asynccontextmanager
async def model_server(
    answers: Sequence[Answer],
    *,
    key: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[ModelServer]:
    server = ModelServer(list(answers), key)
    # A client that leaves ends its request at once, as it does with the providers.
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


def read_script(path: Path) -> list[Answer]:
    return msgspec.json.decode(path.read_bytes(), type=list[Answer])


async def _serve(arguments: argparse.Namespace) -> None:
    answers = read_script(arguments.script)
    async with model_server(
        answers, key=arguments.key, host=arguments.host, port=arguments.port
    ) as server:
        print(server.url, flush=True)  # noqa: T201 - how the starter learns the port
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.model_server", description=__doc__
    )
    parser.add_argument("--script", type=Path, required=True, metavar="FILE")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default="", help="refuse requests that do not show it")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
