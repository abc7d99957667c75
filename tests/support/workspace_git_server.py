"""A real smart HTTP git server on loopback for the workspace: `git http-backend` in a thread.

Tests can make it refuse or redirect, which the service's own server cannot.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class OriginServer(ThreadingHTTPServer):
    """Serves every bare repository below a directory and records requests."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.required_authorization: str | None = None
        self.forbids_pushes = False
        self.status_of_posts: int | None = None
        self.redirects_to: str | None = None
        # While it is set, responses stop after their headers.
        self.stalls = threading.Event()
        # The URL of a pack that its response to a fetch names.
        self.pack_url: str | None = None
        self.requests: list[str] = []

    def url(self, repository: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{repository}"


@contextmanager
def origin_server(root: Path) -> Iterator[OriginServer]:
    server = OriginServer(root)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: OriginServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def log_message(self, *_: object) -> None:
        """Tests read `requests` instead."""

    def _serve(self, body: bytes) -> None:
        server = self.server
        server.requests.append(f"{self.command} {self.path}")
        if server.redirects_to is not None:
            self._reply(302, [("Location", server.redirects_to + self.path)], b"")
        elif server.required_authorization not in (None, self.headers["Authorization"]):
            self._reply(401, [("WWW-Authenticate", "Basic")], b"")
        elif server.forbids_pushes and "receive-pack" in self.path:
            self._reply(403, [], b"")
        elif server.status_of_posts is not None and self.command == "POST":
            self._reply(server.status_of_posts, [], b"")
        else:
            self._run_backend(body)

    def _run_backend(self, body: bytes) -> None:
        address = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "tester",
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        completed = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False
        )
        head, _, content = completed.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
        status = int(headers.pop("Status", "200")[:3])
        if self.server.pack_url is not None:
            line = f"{'a' * 40} {self.server.pack_url}\n"
            section = f"0012packfile-uris\n{len(line) + 4:04x}{line}0001"
            content = content.replace(b"000dpackfile\n", section.encode() + b"000dpackfile\n")
        self._reply(status, list(headers.items()), content)

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        while self.server.stalls.is_set():
            time.sleep(0.05)
        self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body
