"""What in a request would cost money that cannot be known before it is sent.

While a budget applies such requests are refused: a limit that can be talked around is none.
"""

from collections.abc import Sequence
from typing import Any

from agentjobs.gateway.blocks import Block, refers_elsewhere

_ELSEWHERE = {
    "previous_response_id": "send the whole conversation in `input`",
    "conversation": "send the whole conversation in `input`",
    "prompt": "send the instructions themselves",
    "thread": "send the whole conversation in `messages`",
    "container": "leave it out",
    "mcp_servers": "leave it out",
    "fallbacks": "leave it out",
    "web_search_options": "leave it out",
}
_DEAR = {"service_tier": ("priority", "fast"), "speed": ("fast",)}
# Tools that the provider runs itself, and charges for: by the beginning of their type.
_HOSTED = (
    "web_search",
    "web_fetch",
    "file_search",
    "code_interpreter",
    "code_execution",
    "image_generation",
    "mcp",
)


def hidden_cost(body: Block, blocks: Sequence[Block]) -> str | None:
    """In words that tell the agent's author what to change; None: nothing hidden."""
    for name, remedy in _ELSEWHERE.items():
        if body.get(name):
            return f"`{name}` makes its cost unknown: {remedy}"
    for name, values in _DEAR.items():
        if body.get(name) in values:
            return f"`{name}: {body[name]}` costs more than the price in the table: leave it out"
    if tool := next((tool for tool in _tools(body, blocks) if _is_hosted(tool)), None):
        kind = str(tool["type"])[:64]
        return f"the tool `{kind}` runs at the provider and costs extra: leave it out"
    if any(refers_elsewhere(block) for block in blocks):
        return "it refers to content stored elsewhere: send the content itself"
    return None


def _tools(body: Block, blocks: Sequence[Block]) -> list[Any]:
    """Also those that are added in the middle of a conversation."""
    lists = [one["tools"] for one in (body, *blocks) if "tools" in one]
    return [tool for tools in lists if isinstance(tools, list) for tool in tools]


def _is_hosted(tool: Any) -> bool:
    if not isinstance(tool, dict):
        return False
    if str(tool.get("type", "")).startswith(_HOSTED):
        return True
    place = tool.get("environment")
    return isinstance(place, dict) and str(place.get("type", "")).startswith("container")
