"""Following and waiting while a real service goes away and comes back on the same address."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentjobs_client import Client
from tests.support.cli_process import CommandLine

KEY = "ajk_test"
RUNNING = b'{"job_id": "job_1", "status": "running", "agent": "lint-fixer"}'
COMPLETED = RUNNING.replace(b"running", b"completed")
FIRST_HALF = b"retry: 1000\n\nid: 1\ndata: one\ndata:\n\nid: 2\ndata: tw"
SECOND_HALF = b"id: 2\ndata: two\ndata:\n\nevent: end\ndata: completed\n\n"


class Service:
    """One life of a service: gives the same answer to all, and keeps what it was told."""

    def __init__(self, port: int, media_type: str, answer: bytes) -> None:
        service = self
        self.last_event_ids: list[str | None] = []
        self.answered = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.last_event_ids.append(self.headers.get("Last-Event-ID"))
                self.send_response(200)
                self.send_header("Content-Type", media_type)
                self.end_headers()
                self.wfile.write(answer)
                service.answered.set()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Lives:
    """The lives of one service; only the last one runs."""

    def __init__(self) -> None:
        self.all: list[Service] = []

    def begin(self, media_type: str, answer: bytes) -> Service:
        port = self.all[-1].port if self.all else 0
        self.all.append(Service(port, media_type, answer))
        return self.all[-1]


@pytest.fixture
def lives() -> Iterator[Lives]:
    lives = Lives()
    yield lives
    lives.all[-1].stop()


@contextmanager
def client_that_pauses(url: str, *steps: Callable[[], object]) -> Iterator[Client]:
    """A client that, in place of each pause, lets the next thing happen to the service."""
    remaining = list(steps)
    with Client(url, KEY, pause=lambda _: remaining.pop(0)()) as client:
        yield client
    assert not remaining


def test_a_followed_log_is_complete_across_a_restart_of_the_service(lives):
    first = lives.begin("text/event-stream", FIRST_HALF)
    with client_that_pauses(
        first.url,
        first.stop,
        *[lambda: None] * 6,
        lambda: lives.begin("text/event-stream", SECOND_HALF),
    ) as client:
        assert list(client.logs("job_1", follow=True)) == ["one\n", "two\n"]
    assert lives.all[1].last_event_ids == ["1"]


def test_waiting_for_a_job_survives_a_restart_of_the_service(lives):
    first = lives.begin("application/json", RUNNING)
    with client_that_pauses(
        first.url,
        first.stop,
        *[lambda: None] * 6,
        lambda: lives.begin("application/json", COMPLETED),
    ) as client:
        assert client.wait("job_1").status == "completed"


def test_the_command_that_follows_a_log_survives_a_restart_of_the_service(lives, tmp_path):
    first = lives.begin("text/event-stream", FIRST_HALF)
    command = CommandLine(tmp_path / "data", AGENTJOBS_URL=first.url, AGENTJOBS_API_KEY=KEY)
    with command.started("jobs", "logs", "job_1", "--follow") as process:
        assert first.answered.wait(30)
        first.stop()
        second = lives.begin("text/event-stream", SECOND_HALF)
        assert process.stdout is not None
        assert process.stdout.read() == "one\ntwo\n"
        assert process.wait(30) == 0, command.log_of(process)
    assert second.last_event_ids == ["1"]
