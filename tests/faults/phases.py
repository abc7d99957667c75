"""Receives the reports of the failpoints in all processes of a fleet."""

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """A process reached a phase. `job_id` and `fence` identify the claim, if there is one."""

    process: str
    pid: int
    phase: str
    job_id: str
    fence: int
    # Where the process has loaded the service from.
    package: str
    at_ms: int


@contextlib.contextmanager
def listening(path: Path, receive: Callable[[Report], None]) -> Iterator[None]:
    """The process continues when `receive` returns."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                line = self.rfile.readline()
                if line:
                    receive(Report(**json.loads(line), at_ms=time.time_ns() // 1_000_000))
                    self.wfile.write(b"\n")

    server = _Server(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A process may be killed at any time."""
