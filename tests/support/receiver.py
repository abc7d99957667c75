"""A webhook receiver on a real socket, in a thread, that records requests."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tests.support.service import wait_until


@dataclass(frozen=True)
class Received:
    headers: Message
    body: bytes
    client_port: int

    @property
    def payload(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(self.body)
        return document

    @property
    def event(self) -> str:
        return str(self.payload["event"])

    @property
    def job_id(self) -> str:
        return str(self.payload["job_id"])

    @property
    def sequence(self) -> int:
        return int(self.headers["X-Service-Sequence"])


@dataclass
class Receiver:
    port: int
    received: list[Received] = field(default_factory=list)
    # Returns the response status; it may block.
    respond: Callable[[Received], int] = lambda _: 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def wait_for(self, count: int, seconds: float = 30) -> list[Received]:
        wait_until(lambda: len(self.received) >= count, f"{count} deliveries", seconds)
        return self.received[:count]

    def events_of(self, job_id: str) -> list[str]:
        return [request.event for request in self.received if request.job_id == job_id]


@contextmanager
def receiver(respond: Callable[[Received], int] | None = None) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Received(self.headers, body, self.client_address[1])
            receiving.received.append(request)
            self.send_response(receiving.respond(request))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Not logged: requests are in `received`."""

    server = _Server(("127.0.0.1", 0), Handler)
    receiving = Receiver(server.server_address[1])
    if respond is not None:
        receiving.respond = respond
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Some tests kill the sender during a request."""
