"""A small client of the supervisor's protocol, in one thread: it reads frames while it waits."""

import base64
import contextlib
import io
import json
import os
import ssl
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

MESSAGE, DATA, OUTPUT = range(3)
MAX_DATA_BYTES = 65_536
HEADER = struct.Struct(">BI")
CHANGE = struct.Struct(">cIQqHH")

C = TypeVar("C", bound="FrameConnection")


class Change(NamedTuple):
    kind: str
    mode: int
    mtime: int
    target: str
    content: bytes


class FrameConnection:
    """`connection` is authenticated by `hello`."""

    def __init__(self, connection: ssl.SSLSocket, hello: Mapping[str, Any]) -> None:
        self.connection = connection
        self.send(**hello)

    def send(self, **message: Any) -> None:
        self.send_frame(MESSAGE, json.dumps(message).encode())

    def send_frame(self, kind: int, payload: bytes = b"") -> None:
        self.connection.sendall(HEADER.pack(kind, len(payload)) + payload)

    def receive_frame(self) -> tuple[int, bytes]:
        kind, length = HEADER.unpack(self._read(HEADER.size))
        return kind, self._read(length)

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self.connection.recv(length - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return bytes(data)

    def close(self) -> None:
        self.connection.close()


class ClientStream(FrameConnection):
    def write(self, data: bytes) -> None:
        for start in range(0, len(data), MAX_DATA_BYTES):
            self.send_frame(DATA, data[start : start + MAX_DATA_BYTES])

    def end(self) -> None:
        self.send_frame(DATA)

    def read_all(self) -> bytes:
        """Raises ConnectionResetError with the supervisor's reason."""
        data = bytearray()
        while True:
            kind, payload = self.receive_frame()
            if kind == MESSAGE:
                raise ConnectionResetError(json.loads(payload)["reason"])
            if not payload:
                return bytes(data)
            data += payload


class SupervisorClient(FrameConnection):
    """`output` is what has arrived so far; without `acknowledges`, the supervisor keeps it.

    `ports` are the connections of the agent that wait for a stream.
    """

    def __init__(
        self,
        open_connection: Callable[[], ssl.SSLSocket],
        connection: ssl.SSLSocket,
        token: str,
        output_from: int = 0,
        *,
        acknowledges: bool = True,
    ) -> None:
        self._open_connection = open_connection
        self._credentials = {"version": 2, "token": token}
        self.acknowledges = acknowledges
        self.output = bytearray()
        self.ports: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._streams: list[ClientStream] = []
        hello = {"type": "hello", "offset": output_from}
        super().__init__(connection, {**self._credentials, **hello})
        self.hello = self.expect("hello")

    def expect(self, *kinds: str) -> dict[str, Any]:
        """The next message of these types; others are kept."""
        while True:
            for message in self._messages:
                if message["type"] in kinds:
                    self._messages.remove(message)
                    return message
            self.read_frame()

    def request(self, kind: str, **fields: Any) -> Any:
        """Raises RuntimeError with the supervisor's reason."""
        self.send(type=kind, id=7, **fields)
        answer = self.expect("done", "failed")
        assert answer["id"] == 7
        if answer["type"] == "failed":
            raise RuntimeError(answer["reason"])
        return answer["result"]

    def ping(self) -> None:
        self.send(type="ping")
        self.expect("pong")

    def start(self, fields: dict[str, Any]) -> None:
        self.request("prepare", **fields)
        self.request("start")

    def run(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Run the command to its end."""
        self.start(fields)
        return self.expect("ended")

    def wait_for_output(self, text: bytes) -> None:
        self.wait_until(lambda: text in self.output)

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            self.read_frame()

    def open(self, kind: str, **fields: Any) -> ClientStream:
        hello = {**self._credentials, "session": self.hello["session"], "type": kind, **fields}
        stream = ClientStream(self._open_connection(), hello)
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        super().close()

    def serve(self, port: dict[str, Any]) -> ClientStream:
        """The stream for a connection of the agent."""
        return self.open("port", id=port["id"])

    def upload(
        self, content: bytes, path: str = "/workspace", *, kind: str = "upload", track: bool = True
    ) -> None:
        """Raises ConnectionResetError with the supervisor's reason."""
        with closing(self.open(kind, path=path, track=track)) as stream:
            stream.write(content)
            stream.end()
            stream.read_all()

    def changes(self, path: str = "/workspace", **fields: Any) -> bytes:
        with closing(self.open("download", path=path, **fields)) as stream:
            return stream.read_all()

    def download(self, path: str = "/workspace", **fields: Any) -> dict[str, Change]:
        return changes_in(self.changes(path, **fields))

    def deletions(self, path: str = "/workspace") -> list[bytes]:
        changes = changes_in(self.changes(path), removed=True)
        return [os.fsencode(name) for name in changes]

    def read_frame(self) -> None:
        kind, payload = self.receive_frame()
        if kind == OUTPUT:
            (offset,) = struct.unpack(">Q", payload[:8])
            self.output += payload[8:]
            if self.acknowledges:
                self.acknowledge(offset + len(payload) - 8)
            return
        message = json.loads(payload)
        (self.ports if message["type"] == "port" else self._messages).append(message)

    def acknowledge(self, offset: int) -> None:
        self.send(type="ack", offset=offset)


def changes_in(data: bytes, *, removed: bool = False) -> dict[str, Change]:
    """By path: either the paths that are gone, or all others."""
    stream, changes = io.BytesIO(data), {}
    while header := stream.read(CHANGE.size):
        kind, mode, size, mtime, path_bytes, target_bytes = CHANGE.unpack(header)
        path, target = (os.fsdecode(stream.read(n)) for n in (path_bytes, target_bytes))
        change = Change(kind.decode(), mode, mtime, target, stream.read(size))
        if (kind == b"R") == removed:
            changes[path] = change
    return changes


def archive_of(
    entries: Mapping[str, bytes | None], modes: Mapping[str, int] | None = None
) -> bytes:
    """A tar with these files, and directories where the content is None."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.mtime = 1_700_000_000
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.mode = (modes or {}).get(name, 0o755 if content is None else 0o644)
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


def contents_of(changes: Mapping[str, Change]) -> dict[str, bytes]:
    """Of the regular files."""
    return {name: change.content for name, change in changes.items() if change.kind == "F"}


def encoded(filter_program: bytes) -> str:
    return base64.b64encode(filter_program).decode()


@contextlib.contextmanager
def closing(client: C) -> Iterator[C]:
    try:
        yield client
    finally:
        client.close()
