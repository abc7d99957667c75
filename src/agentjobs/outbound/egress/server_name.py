"""Checks that the TLS handshake of a tunnel names the host that the tunnel was opened for.

Otherwise one allowed host of a content delivery network would lead to every other host there.
"""

import asyncio

from agentjobs.outbound.egress.client_hello import (
    CHANGE_CIPHER_SPEC,
    ClientHello,
    ClientHelloError,
    read_client_hello,
    record_end,
    starts_client_hello,
    starts_handshake,
)
from agentjobs.outbound.egress.policy import EgressPolicy
from agentjobs.outbound.egress.relay import CHUNK_BYTES, copy_to_end
from agentjobs.outbound.guard.dial import Streams
from agentjobs.outbound.guard.host_patterns import bracket_ipv6, is_address, normalize_host
from agentjobs.safe_text import ellipsize

HTTPS_PORT = 443
HELLO_SECONDS = 10
_MAX_SHOWN_NAME = 100


async def relay_checked(
    client: Streams, server: Streams, policy: EgressPolicy, target: tuple[str, int]
) -> None:
    """Reports a handshake with another name and closes both connections."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(copy_checked(client[0], server[1], *target))
            directions.create_task(copy_to_end(server[0], client[1]))
    except* ClientHelloError as errors:
        host, port = target
        text = f"{bracket_ipv6(host)}:{port}"
        reason = errors.exceptions[0]
        policy.report(f"TLS {text}", f"a connection to {text} was closed: {reason}")
        client[1].transport.abort()
    except* OSError:
        pass  # A failure of either side ends both.


async def copy_checked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> None:
    """Like `copy_to_end`. Raises ClientHelloError before anything of a refused handshake is sent.

    Port 443 requires TLS. On other ports, other protocols pass.
    """
    buffer = _Buffer(reader, writer)
    if port == HTTPS_PORT:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                is_tls = await _forward_hello(buffer, host)
        except TimeoutError:
            raise ClientHelloError(f"no TLS handshake within {HELLO_SECONDS} seconds") from None
        # A client that leaves without a byte only tested whether it can connect.
        if not is_tls and buffer.data:
            raise ClientHelloError("it is not TLS")
    else:
        is_tls = await _forward_hello(buffer, host)
    if is_tls:
        await _forward_second_hello(buffer, host)
    buffer.flush()
    await copy_to_end(reader, writer)


class _Buffer:
    """What was read and not yet sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.data = b""
        self._reader = reader
        self._writer = writer

    async def fill(self) -> bool:
        """False at the end."""
        chunk = await self._reader.read(CHUNK_BYTES)
        self.data += chunk
        return bool(chunk)

    def send(self, count: int) -> None:
        self._writer.write(self.data[:count])
        self.data = self.data[count:]

    def flush(self) -> None:
        if self.data:
            self.send(len(self.data))


async def _forward_hello(buffer: _Buffer, host: str) -> bool:
    """False if the connection starts with something else, which is not sent."""
    while (is_tls := starts_handshake(buffer.data)) is None:
        if not await buffer.fill():
            return False
    if not is_tls:
        return False
    while (parsed := read_client_hello(buffer.data)) is None:
        if not await buffer.fill():
            raise ClientHelloError("its TLS handshake is incomplete")
    hello, end = parsed
    _check(hello, host)
    buffer.send(end)
    return True


async def _forward_second_hello(buffer: _Buffer, host: str) -> None:
    """A server may ask for a second client hello, and might read the name from that one."""
    while (is_hello := starts_client_hello(buffer.data)) is None:
        if not await buffer.fill():
            return
    if not is_hello and buffer.data[0] == CHANGE_CIPHER_SPEC:
        while (end := record_end(buffer.data)) is None or len(buffer.data) < end:
            if not await buffer.fill():
                return
        buffer.send(end)
        while (is_hello := starts_client_hello(buffer.data)) is None:
            if not await buffer.fill():
                return
    if is_hello:
        await _forward_hello(buffer, host)


def _check(hello: ClientHello, host: str) -> None:
    name = hello.server_name
    if name is None:
        if not is_address(host):
            raise ClientHelloError("its TLS handshake names no server (SNI)")
    elif normalize_host(name) != host:
        shown = ellipsize(name if name.isprintable() else "another name", _MAX_SHOWN_NAME)
        raise ClientHelloError(f"its TLS handshake names another server (SNI): {shown}")
