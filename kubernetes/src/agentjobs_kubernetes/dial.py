"""Connects to the supervisor of a pod over TLS, and proves to each side who the other is."""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from agentjobs_kubernetes.credentials import SERVER_NAME, SUPERVISOR_PORT, Credentials
from agentjobs_kubernetes.frames import FrameType, encode_frame
from agentjobs_kubernetes.messages import VERSION
from agentjobs_kubernetes.stream import READ_BYTES, ConnectionLost, Stream

CONNECT_SECONDS = 1.0
HELLO_SECONDS = 10.0

P = TypeVar("P", bound=asyncio.Protocol)


class Endpoint:
    """Where the supervisor of one run listens."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address = address
        self._token = credentials.token
        self._certificate = credentials.certificate

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        """Accepts the certificate of the run alone, which has signed itself."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.load_verify_locations(cadata=self._certificate)
        return context

    async def open(self, hello: Mapping[str, Any], seconds: float = HELLO_SECONDS) -> Stream:
        """`seconds` are for the connection itself. Raises ConnectionLost."""
        reader = asyncio.StreamReader(READ_BYTES)
        transport, protocol = await self.connect(
            hello, lambda: asyncio.StreamReaderProtocol(reader), seconds
        )
        loop = asyncio.get_running_loop()
        return Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def connect(
        self, hello: Mapping[str, Any], factory: Callable[[], P], seconds: float = HELLO_SECONDS
    ) -> tuple[asyncio.Transport, P]:
        """As `create_connection`. Raises ConnectionLost."""
        try:
            transport, protocol = await self._connect(factory, seconds)
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ConnectionLost(f"{self.address}: {reason}") from None
        payload = msgspec.json.encode({"version": VERSION, "token": self._token, **hello})
        transport.write(encode_frame(FrameType.MESSAGE, payload))
        return transport, protocol

    async def _connect(
        self, factory: Callable[[], P], seconds: float
    ) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            async with asyncio.timeout(seconds):
                await loop.sock_connect(sock, (self.address, SUPERVISOR_PORT))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return await loop.create_connection(
            factory,
            sock=sock,
            ssl=self._tls,
            server_hostname=SERVER_NAME,
            ssl_handshake_timeout=HELLO_SECONDS,
            ssl_shutdown_timeout=CONNECT_SECONDS,
        )
