"""Answers one POST of streamable HTTP with the package `mcp`: with JSON, or with events if the
client asked for notifications about the progress of a call."""

import asyncio
from typing import Any

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import DEFAULT_NEGOTIATED_VERSION, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agentjobs.web.api.accept import names_type
from agentjobs.web.api.headers import header
from agentjobs.web.mcp.progress_stream import stream_call
from agentjobs.web.mcp.rest_api import RestApi
from agentjobs.web.mcp.server import build_server

_EVENT_STREAM = "text/event-stream"


async def serve_post(api: RestApi, scope: Scope, content: bytes, send: Send) -> None:
    try:
        # The package accepts numbers and characters in some places that the API could not encode.
        message = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        await _parse_error(error)(scope, _replay(b""), send)
        return
    server = build_server(api)
    version = header(scope, MCP_PROTOCOL_VERSION_HEADER.encode()) or DEFAULT_NEGOTIATED_VERSION
    reports_progress = names_type(scope, _EVENT_STREAM) and _asks_for_progress(message)
    if reports_progress and version in HANDSHAKE_PROTOCOL_VERSIONS:
        await stream_call(server, message, version, send)
        return
    manager = StreamableHTTPSessionManager(
        server, json_response=not reports_progress, stateless=True
    )
    async with manager.run():
        await manager.handle_request(scope, _replay(content), send)


def _asks_for_progress(message: Any) -> bool:
    """Whether it calls a tool that reports progress, and has a token for it."""
    match message:
        case {
            "jsonrpc": "2.0",
            "id": str() | int() as request_id,
            "method": "tools/call",
            "params": {"name": "watch_job", "_meta": {"progressToken": str() | int() as token}},
        }:
            return not isinstance(request_id, bool) and not isinstance(token, bool)
    return False


def _parse_error(error: Exception) -> Response:
    fields = {"code": PARSE_ERROR, "message": f"Parse error: {error}"}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": fields})
    return Response(body, status_code=400, media_type="application/json")


def _replay(content: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            # A client that leaves cancels the whole call.
            await asyncio.Event().wait()
        return messages.pop()

    return receive
