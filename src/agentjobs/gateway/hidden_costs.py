"""Finds parts of a request whose cost is unknown before it is sent.

Such requests are refused while a budget applies; otherwise agents could bypass it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agentjobs.gateway.content_blocks import Block, is_opaque_file, is_stored_remotely
from agentjobs.gateway.upstream import Api

_UNPRICED_FIELDS = {
    "previous_response_id": "send the whole conversation in `input`",
    "conversation": "send the whole conversation in `input`",
    "prompt": "send the instructions themselves",
    "thread": "send the whole conversation in `messages`",
    "container": "leave it out",
    "mcp_servers": "leave it out",
    "fallbacks": "leave it out",
    "models": "name one `model`",
    "plugins": "leave it out",
    "prediction": "leave it out",
    "audio": "leave it out",
    "web_search_options": "leave it out",
}
# Values that cost the listed price; any other value may cost more.
_PRICED_VALUES: dict[str, tuple[Any, ...]] = {
    "service_tier": (None, "auto", "default", "flex", "standard_only"),
    "speed": (None, "standard"),
    "inference_geo": (None, "global"),
    "modalities": (None, ["text"]),
}

_OPENAI_AGENT_TOOLS = ("function", "custom", "namespace", "local_shell", "apply_patch")
# Followed by a date.
_ANTHROPIC_AGENT_TOOLS = ("bash_", "text_editor_", "computer_", "memory_")


def hidden_cost(body: Block, blocks: Sequence[Block], api: Api) -> str | None:
    """Tells the agent's author what to change; None if the cost is known."""
    return next((reason for check in _CHECKS for reason in check(body, blocks, api)), None)


def _fields(body: Block, _: Sequence[Block], __: Api) -> Iterator[str]:
    for name, remedy in _UNPRICED_FIELDS.items():
        if body.get(name):
            yield f"`{name}` makes its cost unknown: {remedy}"
    for name, values in _PRICED_VALUES.items():
        if body.get(name) not in values:
            value = str(body[name])[:64]
            yield f"`{name}: {value}` may cost more than the listed price: leave it out"


def _edits(body: Block, _: Sequence[Block], __: Api) -> Iterator[str]:
    """Clearing old parts of a conversation is free; compaction runs a model."""
    management = body.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else management
    for edit in edits if isinstance(edits, list) else [edits] if edits else []:
        kind = edit.get("type") if isinstance(edit, dict) else None
        if not str(kind).startswith("clear_"):
            yield f"the context edit `{str(kind)[:64]}` runs a model: leave it out"


def _tools(body: Block, blocks: Sequence[Block], api: Api) -> Iterator[str]:
    """Includes tools that a message adds to the conversation, and tools nested in others."""
    pending = [block["tools"] for block in (body, *blocks) if block.get("tools")]
    while pending:
        tool = pending.pop()
        if isinstance(tool, list):
            pending += tool
        elif not _runs_on_agent(tool, api):
            kind = tool.get("type") if isinstance(tool, dict) else tool
            name = str(kind)[:64]
            yield f"the provider may run the tool `{name}` at extra cost: leave it out"
        elif tool.get("tools"):
            pending.append(tool["tools"])


def _contents(_: Block, blocks: Sequence[Block], __: Api) -> Iterator[str]:
    for block in blocks:
        if is_stored_remotely(block):
            yield "it refers to stored content of unknown size: send the content itself"
        if is_opaque_file(block):
            yield "it contains a file that is not plain text: send its text in the message"


def _runs_on_agent(tool: Any, api: Api) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type")
    if api == "anthropic":
        return kind in (None, "custom") or str(kind).startswith(_ANTHROPIC_AGENT_TOOLS)
    if kind == "shell":
        return _is_local(tool.get("environment"))
    if kind == "tool_search":
        return tool.get("execution") == "client"
    return kind in _OPENAI_AGENT_TOOLS


def _is_local(environment: Any) -> bool:
    return environment is None or (
        isinstance(environment, dict) and environment.get("type") == "local"
    )


_CHECKS = (_fields, _edits, _tools, _contents)
