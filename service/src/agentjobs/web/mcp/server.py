"""The MCP server: tools and resources for the caller of `current_client`.

Importing this module takes most of a second, so only code that serves MCP does.
"""

import logging
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.shared.exceptions import MCPError
from pydantic import AnyUrl, ValidationError

from agentjobs.web.mcp.listings import describe_briefly, recent_jobs
from agentjobs.web.mcp.protocol import invalid_arguments, protocol_error, tool_error
from agentjobs.web.mcp.resources import ALL_JOBS, JSON, RECENT_JOBS, add_resources
from agentjobs.web.mcp.tool_client import current_client
from agentjobs.web.mcp.tools import INSTRUCTIONS, build_tools
from agentjobs_client import ApiError, ClientError

# A key's scopes rarely change, and the API refuses tools that it may not use anyway.
_LISTING_CACHE = CacheHint(ttl_ms=600_000, scope="private")
# Otherwise invalid messages of clients would fill the log.
logging.getLogger("mcp").setLevel(logging.ERROR)


@cache
def build_server() -> "ToolServer":
    server = ToolServer(
        "agentjobs",
        title="agentjobs",
        version=version("agentjobs"),
        instructions=INSTRUCTIONS,
        tools=build_tools(),
        log_level="ERROR",
        cache_hints={"tools/list": _LISTING_CACHE, "resources/templates/list": _LISTING_CACHE},
        # There are no messages outside of a response.
        subscriptions=False,
    )
    add_resources(server)
    return server


class ToolServer(MCPServer[Any]):
    """Errors of the API become results that a model can read, or errors of the protocol."""

    async def list_tools(self) -> list[types.Tool]:
        tools = await super().list_tools()
        if await current_client.get().is_read_only():
            return [tool for tool in tools if tool.annotations and tool.annotations.read_only_hint]
        return tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        # Some models send null for what they leave out.
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            return await super().call_tool(name, given, context)
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as invalid:
                    return tool_error(invalid_arguments(invalid))
                case ClientError() as refused:
                    return tool_error(refused)
                case None:
                    message = f"There is no tool {name[:100]!r}."
                    raise MCPError(types.INVALID_PARAMS, message) from None
            raise

    async def list_resources(self) -> list[types.Resource]:
        try:
            jobs = await recent_jobs(RECENT_JOBS)
        except ClientError as error:
            raise protocol_error(error) from None
        recent = [
            types.Resource(
                uri=f"{ALL_JOBS}/{job.job_id}",
                name=job.job_id,
                description=describe_briefly(job),
                mime_type=JSON,
            )
            for job in jobs
        ]
        return [*await super().list_resources(), *recent]

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | types.InputRequiredResult:
        try:
            return await super().read_resource(uri, context)
        except ResourceNotFoundError:
            message = f"There is no resource {str(uri)[:200]}."
            raise protocol_error(ApiError(404, "resource_not_found", message)) from None
        except ResourceError as error:
            if isinstance(error.__cause__, ClientError):
                raise protocol_error(error.__cause__) from None
            raise
