"""A package registry on this machine's own name, which sandboxes can be allowed to reach."""

import io
import socket
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

# The machine's name may have any of these addresses.
PRIVATE_ADDRESSES = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1/128,fc00::/7"


def wheel(name: str = "shared", source: str = "VALUE = 1\n") -> bytes:
    """Version 1.0 of a package with one module."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}.py", source)
        info = f"{name}-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return buffer.getvalue()


def tarball(content: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@dataclass
class PackageIndex:
    """`files` by path. `requests` are the request lines and `bodies` the text that it received."""

    host: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@contextmanager
def package_index() -> Iterator[PackageIndex]:
    # All addresses, because the machine's name may have any of them.
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Handler)
    index = PackageIndex(f"{socket.gethostname()}:{server.server_port}")
    server.index = index  # type: ignore[attr-defined] - for the handler
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        index: PackageIndex = self.server.index  # type: ignore[attr-defined] - set above
        index.requests.append(self.path)
        content = index.files.get(self.path)
        self._respond(404 if content is None else 200, content or b"")

    do_HEAD = do_GET  # noqa: N815 - the name that the base class expects

    def do_POST(self) -> None:
        index: PackageIndex = self.server.index  # type: ignore[attr-defined] - set above
        index.requests.append(self.path)
        length = int(self.headers.get("Content-Length", "0"))
        index.bodies.append(self.rfile.read(length).decode("utf-8", "replace"))
        self._respond(200, b"")

    def _respond(self, status: int, body: bytes) -> None:
        is_json = body.startswith(b"{")
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if is_json else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Not on the tests' own output."""
