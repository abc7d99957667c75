"""How tests call MCP: through the client of the package, and with bare messages."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import msgspec
from mcp import Client
from mcp_types import CallToolResult, InputRequiredResult, TextContent

from agentjobs.web.mcp.server import build_server
from agentjobs.web.mcp.tool_client import ToolClient, current_client
from service.tests.unit.web.service import Service

Connect = Callable[..., AbstractAsyncContextManager[Client]]

# The current revision of the protocol, and the handshake of those before it.
MODES = ("2026-07-28", "legacy")
ACCEPT = {"Accept": "application/json, text/event-stream"}
# A revision in which a message needs nothing but itself.
VERSION = {"MCP-Protocol-Version": "2025-06-18"}


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def error_code(result: CallToolResult) -> str:
    assert result.is_error, result
    code: str = result.structured_content["error"]["code"]
    assert code in text_of(result)
    return code


async def call_tool(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert text_of(result)
    content: dict[str, Any] = result.structured_content
    return content


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def post(service: Service, body: Any, **headers: str) -> httpx.Response:
    return await service.post("/mcp", json=body, headers={**ACCEPT, **VERSION, **headers})


async def call_with_document(document: Any, tool: str, **arguments: Any) -> CallToolResult:
    """A call of a tool on an API with the same response to everything."""
    async with _client_with(document):
        result = await build_server().call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return result


async def read_with_document(document: Any, uri: str) -> str:
    """The text of a resource of such an API."""
    async with _client_with(document):
        result = await build_server().read_resource(uri)
    assert not isinstance(result, InputRequiredResult)
    (content,) = result
    assert isinstance(content.content, str)
    return content.content


def _client_with(document: Any) -> ToolClient:
    body = msgspec.json.encode(document)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    client = ToolClient("http://service.example", "key", transport=transport)
    current_client.set(client)
    return client
