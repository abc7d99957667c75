"""What tools and resources return and refuse, in the protocol's types."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agentjobs_client import ApiError, ClientError, ServiceUnreachable

_MAX_FAULTS = 20


def tool_result(content: Mapping[str, Any], text: str) -> types.CallToolResult:
    """The same for programs and for models: clients show one of them to the model."""
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=dict(content)
    )


def tool_error(error: ClientError) -> types.CallToolResult:
    """An error for the model, which can correct its arguments or tell the user."""
    refusal = _refusal(error)
    fields = {"code": refusal.code, "message": refusal.message, "details": refusal.details}
    return types.CallToolResult(
        content=[types.TextContent(text=_text(refusal))],
        structured_content={"error": fields},
        is_error=True,
    )


def protocol_error(error: ClientError) -> MCPError:
    refusal = _refusal(error)
    return MCPError(types.INVALID_PARAMS, _text(refusal), {"code": refusal.code})


def invalid_arguments(error: ValidationError) -> ApiError:
    faults = [
        {"field": ".".join(map(str, fault["loc"]))[:100], "message": fault["msg"]}
        for fault in error.errors(include_url=False)
    ]
    message = "Correct these arguments and call again."
    return ApiError(422, "validation_failed", message, details=faults[:_MAX_FAULTS])


def _refusal(error: ClientError) -> ApiError:
    """The error's code, also for errors of the client itself."""
    if isinstance(error, ApiError):
        return error
    is_unreachable = isinstance(error, ServiceUnreachable)
    code = "service_unreachable" if is_unreachable else "unexpected_response"
    return ApiError(0, code, str(error))


def _text(refusal: ApiError) -> str:
    """The message, the code, and a line for every field that is wrong."""
    faults = [fault for fault in refusal.details or () if isinstance(fault, dict)]
    lines = [f"- {fault.get('field')}: {fault.get('message')}" for fault in faults]
    return "\n".join((f"{refusal.message} ({refusal.code})", *lines))
