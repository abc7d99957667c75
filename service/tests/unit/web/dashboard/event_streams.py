"""Reads the event stream of a live page like a browser and disconnects after some events."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.types import ASGIApp, Message

from service.tests.unit.web.dashboard.browser import ADDRESS, Browser, Page

_SECONDS = 10.0


class Stream:
    """The status of the response and its events as (name, value)."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    @property
    def events(self) -> list[tuple[str, Any]]:
        events = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in fields:
                events.append((fields["event"], json.loads(fields["data"])))
        return events

    def parts(self) -> dict[str, Page]:
        """The latest version of each part, parsed as a page."""
        return {
            value["id"]: part_of(value["html"]) for name, value in self.events if name == "part"
        }

    def lines(self) -> Page:
        """All lines of a log, parsed as a page."""
        chunks = [value["html"] + value["rest"] for name, value in self.events if name == "lines"]
        return part_of("".join(chunks))


def part_of(html: str) -> Page:
    return Page(httpx.Response(200, text=html, request=httpx.Request("GET", ADDRESS)))


async def listen(
    app: ASGIApp,
    browser: Browser,
    path: str,
    *,
    events: int = 1,
    on_event: Callable[[], None] = lambda: None,
) -> Stream:
    """Read until `events` events arrived or the service ended the stream.

    `on_event` is called after every chunk that follows the first event.
    """
    stream, disconnected = Stream(), asyncio.Event()

    async def receive() -> Message:
        if not request_sent:
            request_sent.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        stream.status = message.get("status", stream.status)
        stream.body += message.get("body", b"")
        if stream.events:
            on_event()
        if len(stream.events) >= events:
            disconnected.set()

    request_sent: list[bool] = []
    address = urlsplit(path)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.http.cookies.items())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": address.path,
        "raw_path": address.path.encode(),
        "query_string": address.query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1:8080"),
            (b"accept", b"text/event-stream"),
            (b"cookie", cookies.encode()),
        ],
        "client": ("127.0.0.1", 4321),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }
    async with asyncio.timeout(_SECONDS):
        await app(scope, receive, send)
    return stream
