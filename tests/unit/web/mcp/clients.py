"""How tests call MCP: through the client of the package, and with bare messages."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import msgspec
from mcp import Client
from mcp_types import CallToolResult, TextContent

from agentjobs.web.mcp.rest_api import RestRequest, RestResponse
from agentjobs.web.mcp.tool import ToolCall
from tests.unit.web.service import Service

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


class OneResponse:
    """An API with the same response to everything."""

    def __init__(self, document: Any) -> None:
        self._body = msgspec.json.encode(document)

    async def send(self, _request: RestRequest) -> RestResponse:
        return RestResponse(self._body, {})

    async def is_read_only(self) -> bool:
        return True


def direct_call(document: Any, arguments: Any) -> ToolCall:
    """A call of a tool without MCP, on an API with one response."""

    async def no_progress(_progress: float, _total: float, _message: str) -> None:
        pass

    return ToolCall(OneResponse(document), arguments, no_progress)
