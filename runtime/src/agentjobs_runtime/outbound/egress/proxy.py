"""One connection to the HTTP proxy: a CONNECT tunnel or one forwarded request.

Each connection carries one request. The egress policy decides where it may go.
"""

import asyncio
import contextlib
from http import HTTPStatus

from agentjobs_runtime.outbound.egress.http_head import (
    END,
    MAX_HEAD_BYTES,
    HeadError,
    ProxyRequest,
    parse_request,
    parse_response,
)
from agentjobs_runtime.outbound.egress.policy import ConnectionRefused, EgressPolicy
from agentjobs_runtime.outbound.egress.relay import CHUNK_BYTES, Buffer, closing, copy
from agentjobs_runtime.outbound.egress.server_name import relay_checked
from agentjobs_runtime.outbound.guard.dial import Streams

HEAD_SECONDS = 10
# How long a client may take to read a refusal before the connection is closed.
LINGER_SECONDS = 1
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def serve_proxy(client: Streams, policy: EgressPolicy) -> None:
    """The client's reader must have the limit MAX_HEAD_BYTES."""
    try:
        request = await read_request(client[0])
        if request is not None:
            await _serve(request, client, policy)
    except ConnectionRefused as refusal:
        await _refuse(client, refusal)


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    """None if the client left without sending a request. Raises ConnectionRefused."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return parse_request(await reader.readuntil(END))
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise ConnectionRefused(431, f"a request head may have {MAX_HEAD_BYTES} bytes") from None
    except TimeoutError:
        raise ConnectionRefused(408, f"no request head within {HEAD_SECONDS} seconds") from None
    except HeadError as error:
        raise ConnectionRefused(400, str(error)) from None


async def _serve(request: ProxyRequest, client: Streams, policy: EgressPolicy) -> None:
    server = await policy.connect(request.host, request.port)
    async with closing(server[1]):
        if request.is_tunnel:
            client[1].write(_ESTABLISHED)
            await relay_checked(client, server, policy, (request.host, request.port))
        else:
            await _forward(request, client, server)


async def _forward(request: ProxyRequest, client: Streams, server: Streams) -> None:
    server[1].write(request.to_server())
    body = asyncio.ensure_future(Buffer(client[0], server[1]).copy_body(request.body_bytes))
    try:
        await _forward_head(server[0], client[1])
        await copy(server[0], client[1])
    finally:
        body.cancel()
        await asyncio.gather(body, return_exceptions=True)


async def _forward_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    is_interim = True
    while is_interim:
        try:
            response = parse_response(await reader.readuntil(END))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, HeadError, OSError):
            raise ConnectionRefused(502, "the server's response is not HTTP") from None
        writer.write(response.to_client())
        is_interim = response.is_interim


async def _refuse(client: Streams, refusal: ConnectionRefused) -> None:
    reader, writer = client
    body = f"agentjobs: {refusal.reason}\n".encode()
    writer.write(
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    # Closing with unread input would reset the connection and lose the response.
    with contextlib.suppress(OSError):
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.drain()
            if not writer.is_closing():
                writer.write_eof()
            while await reader.read(CHUNK_BYTES):
                pass
