"""A small client of the supervisor's protocol, in one thread: it reads frames while it waits."""

import base64
import contextlib
import io
import json
import ssl
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MESSAGE, OPEN, DATA, END, CLOSE, CREDIT, OUTPUT, ACK = range(8)
MAX_DATA_BYTES = 65_536
_HEADER = struct.Struct(">BII")


class ClientChannel:
    def __init__(self, number: int, kind: dict[str, Any]) -> None:
        self.number = number
        self.kind = kind
        self.received = bytearray()
        self.credit = 1024 * 1024
        self.is_ended = False
        self.is_closed = False


class SupervisorClient:
    """`output` is what has arrived so far; without `acknowledges`, the supervisor keeps it."""

    def __init__(self, connection: ssl.SSLSocket, *, acknowledges: bool = True) -> None:
        self.connection = connection
        self.acknowledges = acknowledges
        self.hello: dict[str, Any] = {}
        self.output = bytearray()
        self.channels: dict[int, ClientChannel] = {}
        self._messages: list[dict[str, Any]] = []
        self._next = 2

    def send(self, kind: str, **fields: Any) -> None:
        self.send_frame(MESSAGE, 0, json.dumps({"type": kind, **fields}).encode())

    def send_frame(self, kind: int, channel: int, payload: bytes = b"") -> None:
        self.connection.sendall(_HEADER.pack(kind, channel, len(payload)) + payload)

    def expect(self, kind: str) -> dict[str, Any]:
        """The next message of this type; others are kept."""
        while True:
            for message in self._messages:
                if message["type"] == kind:
                    self._messages.remove(message)
                    return message
            self.read_frame()

    def request(self, kind: str, reply: str, **fields: Any) -> dict[str, Any]:
        self.send(kind, **fields)
        return self.expect(reply)

    def start(self, fields: dict[str, Any]) -> None:
        self.request("prepare", "prepared", **fields)
        self.request("start", "started")

    def run(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Run the command to its end."""
        self.start(fields)
        return self.expect("ended")

    def wait_for_output(self, text: bytes) -> None:
        self.wait_until(lambda: text in self.output)

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            self.read_frame()

    def open(self, kind: str, **fields: Any) -> ClientChannel:
        channel = ClientChannel(self._next, {"kind": kind, **fields})
        self._next += 2
        self.channels[channel.number] = channel
        self.send_frame(OPEN, channel.number, json.dumps(channel.kind).encode())
        return channel

    def write(self, channel: ClientChannel, data: bytes) -> None:
        for start in range(0, len(data), MAX_DATA_BYTES):
            part = data[start : start + MAX_DATA_BYTES]
            self.wait_until(lambda: channel.credit >= len(part) or channel.is_closed)  # noqa: B023 - called here
            if channel.is_closed:
                return
            channel.credit -= len(part)
            self.send_frame(DATA, channel.number, part)

    def end(self, channel: ClientChannel) -> None:
        self.send_frame(END, channel.number)

    def read_all(self, channel: ClientChannel) -> bytes:
        self.wait_until(lambda: channel.is_ended or channel.is_closed)
        if channel.is_closed:
            raise ConnectionResetError(self.failure_of(channel))
        return bytes(channel.received)

    def failure_of(self, channel: ClientChannel) -> str:
        reasons = [m["reason"] for m in self._messages if m.get("channel") == channel.number]
        return str(reasons[0]) if reasons else ""

    def upload(self, archive: bytes, path: str = "/workspace", *, track: bool = True) -> Any:
        channel = self.open("upload", path=path, track=track)
        self.write(channel, archive)
        self.end(channel)
        return self.expect("uploaded")

    def download(self, path: str = "/workspace", *, changes: bool = True) -> bytes:
        return self.read_all(self.open("download", path=path, changes=changes))

    def deletions(self, path: str = "/workspace") -> list[bytes]:
        return self.read_all(self.open("deletions", path=path)).split(b"\0")[:-1]

    def read_frame(self) -> None:
        kind, number, length = _HEADER.unpack(self._read(_HEADER.size))
        payload = self._read(length)
        channel = self.channels.get(number)
        if kind == MESSAGE:
            self._messages.append(json.loads(payload))
        elif kind == OUTPUT:
            self._add_output(payload)
        elif kind == OPEN:
            self.channels[number] = ClientChannel(number, json.loads(payload))
        elif channel is not None:
            self._add(channel, kind, payload)

    def _add_output(self, payload: bytes) -> None:
        (offset,) = struct.unpack(">Q", payload[:8])
        self.output += payload[8:]
        if self.acknowledges:
            self.acknowledge(offset + len(payload) - 8)

    def acknowledge(self, offset: int) -> None:
        self.send_frame(ACK, 0, struct.pack(">Q", offset))

    def _add(self, channel: ClientChannel, kind: int, payload: bytes) -> None:
        if kind == DATA:
            channel.received += payload
            self.send_frame(CREDIT, channel.number, struct.pack(">I", len(payload)))
        elif kind == CREDIT:
            channel.credit += struct.unpack(">I", payload)[0]
        elif kind == END:
            channel.is_ended = True
        elif kind == CLOSE:
            channel.is_closed = True

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


def members_of(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as opened:
        return {member.name: member for member in opened.getmembers()}


def contents_of(archive: bytes) -> dict[str, bytes]:
    """Of the regular files."""
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as opened:
        files = (member for member in opened.getmembers() if member.isreg())
        return {member.name: opened.extractfile(member).read() for member in files}  # type: ignore[union-attr]


def encoded(filter_program: bytes) -> str:
    return base64.b64encode(filter_program).decode()


@contextlib.contextmanager
def closing(client: SupervisorClient) -> Iterator[SupervisorClient]:
    try:
        yield client
    finally:
        client.close()
