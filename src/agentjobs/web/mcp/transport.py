"""One POST of streamable HTTP, answered by the package `mcp`: with JSON, or with events if the
client asked to hear of the progress of a call that waits."""

import asyncio
from typing import Any

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from agentjobs.web.api.headers import all_headers, header, media_type
from agentjobs.web.mcp.progress_stream import stream_call
from agentjobs.web.mcp.rest_api import RestApi
from agentjobs.web.mcp.server import build_server

_EVENT_STREAM = "text/event-stream"


async def serve_post(api: RestApi, scope: Scope, content: bytes, send: Send) -> None:
    server = build_server(api)
    call = _call_with_progress(content) if _accepts_events(scope) else None
    version = header(scope, MCP_PROTOCOL_VERSION_HEADER.encode()) or DEFAULT_NEGOTIATED_VERSION
    if call is not None and version in HANDSHAKE_PROTOCOL_VERSIONS:
        await stream_call(server, call, version, send)
        return
    manager = StreamableHTTPSessionManager(server, json_response=call is None, stateless=True)
    async with manager.run():
        await manager.handle_request(scope, _replay(content), send)


def _call_with_progress(content: bytes) -> dict[str, Any] | None:
    """The message if it calls a tool that reports progress to a client that asked for it."""
    if b"progressToken" not in content:
        return None
    try:
        message = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The package has the right answer to it.
        return None
    match message:
        case {
            "jsonrpc": "2.0",
            "id": str() | int() as request_id,
            "method": "tools/call",
            "params": {"name": "watch_job", "_meta": {"progressToken": str() | int()}},
        } if not isinstance(request_id, bool):
            return dict(message)
    return None


def _accepts_events(scope: Scope) -> bool:
    accepted = b",".join(all_headers(scope, b"accept")).decode("latin-1")
    return any(media_type(value) == _EVENT_STREAM for value in accepted.split(","))


def _replay(content: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            # A client that leaves cancels the whole call.
            await asyncio.Event().wait()
        return messages.pop()

    return receive
