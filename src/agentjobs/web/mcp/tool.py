"""A tool: what models are told about it, and the function that runs it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from agentjobs.web.mcp.rest_api import RestApi

ReportProgress = Callable[[float, float, str], Awaitable[None]]
"""Tells a client that asked for it how far a call is: seconds, of how many, and a message."""


class ToolCall(NamedTuple):
    api: RestApi
    arguments: Any
    report_progress: ReportProgress


class ToolResult(NamedTuple):
    """The same for programs and for models: clients show one of them to the model."""

    content: Mapping[str, Any]
    text: str


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[ToolCall], Awaitable[ToolResult]]
    is_read_only: bool = True
    is_destructive: bool = False
    is_idempotent: bool = True
    # Whether it acts outside the service: an agent runs, and may open a pull request.
    is_open_world: bool = False
