"""A supervisor whose answers a test decides, at an address of its own on the loopback interface."""

import asyncio
import contextlib
import json
import random
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agentjobs_kubernetes.credentials import SUPERVISOR_PORT, Credentials
from agentjobs_kubernetes.frames import OFFSET_FIELD, FrameType, encode_frame
from agentjobs_kubernetes.stream import ConnectionLost, Stream


class ScriptedSupervisor:
    """Answers `hello` and `ping` by itself, unless it `is_silent`."""

    def __init__(self, credentials: Credentials) -> None:
        self.address = f"127.{random.randint(64, 127)}.{random.randint(0, 255)}.2"
        self.hello: dict[str, Any] = {
            "type": "hello",
            "version": 2,
            "architecture": "x86_64",
            "state": "new",
            "session": 1,
        }
        self.greeting: list[dict[str, Any]] = []
        self.is_silent = False
        self.accepted = 0
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.acks: asyncio.Queue[int] = asyncio.Queue()
        # Streams with what they were opened for.
        self.opened: asyncio.Queue[tuple[Stream, dict[str, Any]]] = asyncio.Queue()
        self.lost: asyncio.Queue[None] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self._writer: asyncio.StreamWriter
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(credentials.certificate + credentials.key)
            file.flush()
            self._tls.load_cert_chain(file.name)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["ScriptedSupervisor"]:
        server = await asyncio.start_server(
            self._accept, self.address, SUPERVISOR_PORT, ssl=self._tls
        )
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()

    def say(self, type: str, **fields: Any) -> None:
        self.send(FrameType.MESSAGE, json.dumps({"type": type, **fields}).encode())

    def send(self, type: FrameType, payload: bytes) -> None:
        self._writer.write(encode_frame(type, payload))

    def send_output(self, offset: int, data: bytes) -> None:
        self.send(FrameType.OUTPUT, OFFSET_FIELD.pack(offset) + data)

    async def next_message(self) -> dict[str, Any]:
        return await self.messages.get()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        stream = Stream(reader, writer)
        try:
            while True:
                message = json.loads((await stream.next_frame()).payload)
                if "token" in message and message["type"] != "hello":
                    self.opened.put_nowait((stream, message))
                    return
                if not self.is_silent:
                    self._receive(message, writer)
        except ConnectionLost:
            self.lost.put_nowait(None)

    def _receive(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if message["type"] == "hello":
            self.greeting.append(message)
            self._writer = writer
            self.say(**self.hello)
        elif message["type"] == "ping":
            self.say("pong")
        elif message["type"] == "ack":
            self.acks.put_nowait(message["offset"])
        else:
            self.messages.put_nowait(message)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
