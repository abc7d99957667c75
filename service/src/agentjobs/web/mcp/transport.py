"""Answers one POST of streamable HTTP with the package `mcp`: with JSON, or with events if the
client asked for notifications about the progress of a call."""

import asyncio

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from agentjobs.web.api.headers import names_type
from agentjobs.web.mcp.in_process_client import InProcessClient
from agentjobs.web.mcp.server import build_server
from agentjobs.web.mcp.tool_client import current_client


async def serve_post(scope: Scope, content: bytes, send: Send) -> None:
    reports_progress = names_type(scope, "text/event-stream") and _asks_for_progress(content)
    manager = StreamableHTTPSessionManager(
        # The package hands it out only to Starlette applications that it builds itself.
        build_server()._lowlevel_server,
        json_response=not reports_progress,
        stateless=True,
    )
    async with InProcessClient(scope) as client, manager.run():
        current_client.set(client)
        await manager.handle_request(scope, _replay(content), send)


def _asks_for_progress(content: bytes) -> bool:
    """Whether a message calls the tool that reports progress, and has a token for it."""
    try:
        message = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    match message:
        case {"params": {"name": "watch_job", "_meta": {"progressToken": _}}}:
            return True
    return False


def _replay(content: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            # A client that leaves cancels the whole call.
            await asyncio.Event().wait()
        return messages.pop()

    return receive
