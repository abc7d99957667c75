"""Checks that the TLS handshake or HTTP request in a tunnel names the host it was opened for.

Otherwise one allowed host of a content delivery network would lead to every other host there.
"""

import asyncio

from agentjobs_runtime.outbound.egress.client_hello import (
    CHANGE_CIPHER_SPEC,
    ClientHello,
    ClientHelloError,
    read_client_hello,
    record_end,
    starts_client_hello,
    starts_handshake,
)
from agentjobs_runtime.outbound.egress.http_head import (
    END,
    MAX_HEAD_BYTES,
    HeadError,
    parse_tunnelled_request,
    starts_request,
)
from agentjobs_runtime.outbound.egress.policy import EgressPolicy
from agentjobs_runtime.outbound.egress.relay import Buffer, copy_to_end
from agentjobs_runtime.outbound.guard.dial import Streams
from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, is_address, normalize_host
from agentjobs_runtime.safe_text import ellipsize

HTTPS_PORT = 443
HTTP_PORT = 80
HELLO_SECONDS = 10
_MAX_SHOWN_NAME = 100


async def relay_checked(
    client: Streams, server: Streams, policy: EgressPolicy, target: tuple[str, int]
) -> None:
    """Reports a client that names another host and closes both connections."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(copy_checked(client[0], server[1], *target))
            directions.create_task(copy_to_end(server[0], client[1]))
    except* (ClientHelloError, HeadError) as errors:
        host, port = target
        text = f"{bracket_ipv6(host)}:{port}"
        reason = errors.exceptions[0]
        policy.report(f"name {text}", f"a connection to {text} was closed: {reason}")
        client[1].transport.abort()
    except* OSError:
        pass  # A failure of either side ends both.


async def copy_checked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> None:
    """Like `copy_to_end`, but ends after one HTTP request.

    Raises ClientHelloError or HeadError before anything of a refused handshake or request is sent.
    Port 443 requires TLS, port 80 TLS or HTTP. On other ports, other protocols pass.
    """
    buffer = Buffer(reader, writer)
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
        if not is_tls and await _is_request(buffer):
            await _forward_request(buffer, host, port)
            return
        if not is_tls and buffer.data and port == HTTP_PORT:
            raise HeadError("it is neither HTTP nor TLS")
    if is_tls:
        await _forward_second_hello(buffer, host)
    buffer.writer.write(buffer.data)
    await copy_to_end(reader, writer)


async def _is_request(buffer: Buffer) -> bool:
    while (is_request := starts_request(buffer.data)) is None:
        if not await buffer.fill():
            return False
    return is_request


async def _forward_request(buffer: Buffer, host: str, port: int) -> None:
    """One request per connection: the next one could name another host."""
    while (end := buffer.data.find(END, 0, MAX_HEAD_BYTES)) < 0:
        if len(buffer.data) >= MAX_HEAD_BYTES or not await buffer.fill():
            raise HeadError("its HTTP request is incomplete")
    request = parse_tunnelled_request(buffer.take(end + len(END)), host, port)
    buffer.writer.write(request.to_server())
    await buffer.copy_body(request.body_bytes)


async def _forward_hello(buffer: Buffer, host: str) -> bool:
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
    buffer.writer.write(buffer.take(end))
    return True


async def _forward_second_hello(buffer: Buffer, host: str) -> None:
    """A server may ask for a second client hello, and might read the name from that one."""
    while (is_hello := starts_client_hello(buffer.data)) is None:
        if not await buffer.fill():
            return
    if not is_hello and buffer.data[0] == CHANGE_CIPHER_SPEC:
        while (end := record_end(buffer.data)) is None or len(buffer.data) < end:
            if not await buffer.fill():
                return
        buffer.writer.write(buffer.take(end))
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
