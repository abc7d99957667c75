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

from agentjobs_kubernetes.channels import Channel, ConnectionLost
from agentjobs_kubernetes.credentials import SUPERVISOR_PORT, Credentials
from agentjobs_kubernetes.multiplexer import Connection


class ScriptedSupervisor:
    """Answers `hello` and `ping` by itself, unless it `is_silent`."""

    def __init__(self, credentials: Credentials) -> None:
        self.address = f"127.{random.randint(64, 127)}.{random.randint(0, 255)}.2"
        self.hello: dict[str, Any] = {
            "type": "hello",
            "version": 1,
            "architecture": "x86_64",
            "state": "new",
            "ended": None,
        }
        self.greeting: list[dict[str, Any]] = []
        self.is_silent = False
        self.accepted = 0
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.acks: asyncio.Queue[int] = asyncio.Queue()
        self.opened: asyncio.Queue[tuple[Channel, dict[str, Any]]] = asyncio.Queue()
        self.lost: asyncio.Queue[ConnectionLost] = asyncio.Queue()
        self.connection: Connection
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(credentials.certificate + credentials.key)
            file.flush()
            self._tls.load_cert_chain(file.name)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["ScriptedSupervisor"]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._accept, self.address, SUPERVISOR_PORT, ssl=self._tls
        )
        try:
            yield self
        finally:
            server.close()
            if self.accepted:
                self.connection.abort()

    def say(self, type: str, **fields: Any) -> None:
        self.connection.send_message({"type": type, **fields})

    async def next_message(self) -> dict[str, Any]:
        return await self.messages.get()

    def on_message(self, payload: bytes) -> None:
        message = json.loads(payload)
        if self.is_silent:
            return
        if message["type"] == "hello":
            self.greeting.append(message)
            self.connection.send_message(self.hello)
        elif message["type"] == "ping":
            self.say("pong")
        else:
            self.messages.put_nowait(message)

    def on_output(self, offset: int, data: bytes) -> None:
        raise AssertionError((offset, data))

    def on_ack(self, offset: int) -> None:
        self.acks.put_nowait(offset)

    def on_open(self, channel: Channel, request: bytes) -> None:
        self.opened.put_nowait((channel, json.loads(request)))

    def on_lost(self, error: ConnectionLost) -> None:
        self.lost.put_nowait(error)

    def _accept(self) -> Connection:
        self.accepted += 1
        self.connection = Connection(self, first_channel=1)
        return self.connection


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
