"""The MCP server of one caller: tools and resources in the protocol's own types.

Importing this module takes most of a second, so only code that serves MCP does.
"""

import logging
from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from agentjobs.json_fields import fields_of
from agentjobs.web.mcp.arguments import argument_faults, input_schema
from agentjobs.web.mcp.listings import describe_briefly, recent_jobs
from agentjobs.web.mcp.resources import ALL_JOBS, JOB_RESOURCES, RECENT_JOBS, read_resource
from agentjobs.web.mcp.rest_api import RestApi, RestError
from agentjobs.web.mcp.tool import Tool, ToolCall, ToolResult
from agentjobs.web.mcp.tools import INSTRUCTIONS, TOOLS

Context = ServerRequestContext[Any, Any]

# A key's scopes rarely change, and the API refuses tools that it may not use anyway.
_LISTING_CACHE = CacheHint(ttl_ms=600_000, scope="private")
_TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}
# Otherwise invalid messages of clients would fill the log.
logging.getLogger("mcp").setLevel(logging.ERROR)


def build_server(api: RestApi) -> Server[Any]:
    return Server(
        "agentjobs",
        title="agentjobs",
        version=_version(),
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": _LISTING_CACHE,
            "resources/templates/list": _LISTING_CACHE,
        },
        get_tool_input_schema=_schema_of,
        on_list_tools=partial(_list_tools, api),
        on_call_tool=partial(_call_tool, api),
        on_list_resources=partial(_list_resources, api),
        on_list_resource_templates=_list_templates,
        on_read_resource=partial(_read_resource, api),
    )


async def _list_tools(api: RestApi, _context: Context, _params: Any) -> types.ListToolsResult:
    is_read_only = await api.is_read_only()
    listed = [_describe_tool(tool) for tool in TOOLS if tool.is_read_only or not is_read_only]
    return types.ListToolsResult(tools=listed)


async def _call_tool(
    api: RestApi, context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    tool = _TOOLS_BY_NAME.get(params.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:100]!r}.")
    try:
        result = await _run(tool, api, context, params.arguments or {})
    except RestError as error:
        return _tool_error(error)
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)], structured_content=dict(result.content)
    )


async def _run(
    tool: Tool, api: RestApi, context: Context, arguments: Mapping[str, Any]
) -> ToolResult:
    if faults := argument_faults(arguments, tool.arguments):
        raise RestError("validation_failed", "Correct these arguments and call again.", faults)
    checked = tool.arguments(**fields_of(arguments, tool.arguments))
    return await tool.run(ToolCall(api, checked, context.session.report_progress))


async def _list_resources(
    api: RestApi, _context: Context, _params: Any
) -> types.ListResourcesResult:
    try:
        jobs = await recent_jobs(api, RECENT_JOBS)
    except RestError as error:
        raise _protocol_error(error) from None
    recent = [
        types.Resource(
            uri=f"{ALL_JOBS}/{job['job_id']}",
            name=job["job_id"],
            description=describe_briefly(job),
            mime_type="application/json",
        )
        for job in jobs
    ]
    description = f"The {RECENT_JOBS} newest jobs."
    newest = types.Resource(
        uri=ALL_JOBS, name="jobs", description=description, mime_type="application/json"
    )
    return types.ListResourcesResult(resources=[newest, *recent])


async def _list_templates(_context: Context, _params: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                uri_template=each.template,
                name=each.name,
                description=each.description,
                mime_type=each.media_type,
            )
            for each in JOB_RESOURCES
        ]
    )


async def _read_resource(
    api: RestApi, _context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    try:
        content = await read_resource(api, uri)
    except RestError as error:
        raise _protocol_error(error) from None
    text = types.TextResourceContents(uri=uri, mime_type=content.media_type, text=content.text)
    return types.ReadResourceResult(contents=[text])


@cache
def _version() -> str:
    # Reading it takes a millisecond.
    return version("agentjobs")


def _schema_of(name: str) -> Mapping[str, Any] | None:
    tool = _TOOLS_BY_NAME.get(name)
    return None if tool is None else _describe_tool(tool).input_schema


@cache
def _describe_tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool.arguments),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=tool.is_open_world,
        ),
    )


def _tool_error(error: RestError) -> types.CallToolResult:
    """For the model, which can correct its arguments or tell the user."""
    fields = {"code": error.code, "message": error.message, "details": error.details}
    return types.CallToolResult(
        content=[types.TextContent(text=str(error))],
        structured_content={"error": fields},
        is_error=True,
    )


def _protocol_error(error: RestError) -> MCPError:
    return MCPError(types.INVALID_PARAMS, str(error), {"code": error.code})
