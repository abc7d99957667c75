"""One conversation with an HTTP proxy: a tunnel by CONNECT, or one plain request passed on.

Each connection carries one request. Where it may lead is the gate's decision.
"""

import asyncio
import contextlib
from http import HTTPStatus

from agentjobs.outbound.egress.http_head import (
    END,
    HeadError,
    ProxyRequest,
    parse_answer,
    parse_request,
)
from agentjobs.outbound.egress.policy import Gate, Refusal
from agentjobs.outbound.egress.relay import CHUNK_BYTES, ending, pump, relay
from agentjobs.outbound.guard.dial import Streams

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10
# Time for a client to read a refusal before the connection is closed.
LINGER_SECONDS = 1
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def serve_proxy(client: Streams, gate: Gate) -> None:
    """`client`'s reader has a limit of HEAD_BYTES."""
    try:
        request = await _request(client[0])
        if request is not None:
            await _fulfil(request, client, gate)
    except Refusal as refusal:
        await _refuse(client, refusal)


async def _request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    """None: the client left without asking for anything."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return parse_request(await reader.readuntil(END))
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"a request's head may have {HEAD_BYTES} bytes") from None
    except TimeoutError:
        raise Refusal(408, f"no whole request came within {HEAD_SECONDS} seconds") from None
    except HeadError as error:
        raise Refusal(400, str(error)) from None


async def _fulfil(request: ProxyRequest, client: Streams, gate: Gate) -> None:
    server = await gate.reach(request.host, request.port)
    async with ending(server[1]):
        if request.is_tunnel:
            client[1].write(_ESTABLISHED)
            await relay(client, server)
        else:
            await _forward(request, client, server)


async def _forward(request: ProxyRequest, client: Streams, server: Streams) -> None:
    server[1].write(request.onward())
    # Whatever follows the head is the body: the server closes after this one answer.
    body = asyncio.ensure_future(pump(client[0], server[1]))
    try:
        await _pass_head_on(server[0], client[1])
        await pump(server[0], client[1])
    finally:
        body.cancel()
        await asyncio.gather(body, return_exceptions=True)


async def _pass_head_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    is_interim = True
    while is_interim:
        try:
            answer = parse_answer(await reader.readuntil(END))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, HeadError, OSError):
            raise Refusal(502, "the server did not answer in HTTP") from None
        writer.write(answer.onward())
        is_interim = answer.is_interim


async def _refuse(client: Streams, refusal: Refusal) -> None:
    reader, writer = client
    body = f"agentjobs: {refusal.reason}\n".encode()
    writer.write(
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    # Closing on top of unread bytes would reset the connection, and the answer would be lost.
    with contextlib.suppress(OSError):
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.drain()
            if not writer.is_closing():
                writer.write_eof()
            while await reader.read(CHUNK_BYTES):
                pass
