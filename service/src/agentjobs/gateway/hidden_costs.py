"""Finds parts of a request whose cost is unknown before it is sent.

Such requests are refused while a budget applies; otherwise agents could bypass it. Options that
this module does not know are left out then. An option counts whatever its value is, except null.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agentjobs.gateway.content_blocks import Block, is_opaque_file, is_stored_remotely
from agentjobs_runtime.upstream import Api

_UNPRICED_FIELDS = {
    "previous_response_id": "send the whole conversation in `input`",
    "conversation": "send the whole conversation in `input`",
    "prompt": "send the instructions themselves",
    "thread": "send the whole conversation in `messages`",
    "container": "leave it out",
    "mcp_servers": "leave it out",
    "compaction": "leave it out",
    "fallbacks": "leave it out",
    "models": "name one `model`",
    "plugins": "leave it out",
    "provider": "leave it out",
    "preset": "leave it out",
    "search_parameters": "leave it out",
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
# Suffixes of OpenRouter: a web search, and providers chosen regardless of their price.
_UNPRICED_SUFFIXES = (":online", ":nitro", ":exacto")
# Options of the APIs and of common servers that do not change the price of a token.
_FREE_FIELDS = frozenset(
    """
    model messages input system instructions include stream stream_options background store
    tools tool_choice functions function_call parallel_tool_calls max_tool_calls truncation
    max_tokens max_completion_tokens max_output_tokens n_predict n best_of n_cmpl logit_bias
    logprobs top_logprobs temperature top_p top_k top_a min_p typical_p seed stop stop_sequences
    frequency_penalty presence_penalty repeat_penalty repetition_penalty reasoning thinking
    reasoning_effort reasoning_format include_reasoning enable_thinking verbosity text
    output_config response_format json_schema grammar guided_json guided_regex guided_choice
    guided_grammar structured_outputs chat_template_kwargs context_management cache_prompt
    cache_control prompt_cache_key prompt_cache_options prompt_cache_retention metadata
    client_metadata user safety_identifier user_profile_id moderation diagnostics usage transforms
    """.split()  # noqa: SIM905 - a list would take a line for every name
)

_OPENAI_AGENT_TOOLS = ("function", "custom", "namespace", "local_shell", "apply_patch")
# Followed by a date.
_ANTHROPIC_AGENT_TOOLS = ("bash_", "text_editor_", "computer_", "memory_")


def hidden_cost(body: Block, blocks: Sequence[Block], api: Api) -> str | None:
    """Tells the agent's author what to change; None if the cost is known."""
    return next((reason for check in _CHECKS for reason in check(body, blocks, api)), None)


def is_known_field(name: str) -> bool:
    """Whether a request with it that is not refused costs the listed price."""
    return name in _FREE_FIELDS or name in _PRICED_VALUES


def _fields(body: Block, _: Sequence[Block], __: Api) -> Iterator[str]:
    for name, remedy in _UNPRICED_FIELDS.items():
        if body.get(name) is not None:
            yield f"`{name}` makes its cost unknown: {remedy}"
    if str(body.get("model")).endswith(_UNPRICED_SUFFIXES):
        yield "the suffix of its model makes its cost unknown: leave it out"
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict) and reasoning.get("mode") not in (None, "standard"):
        yield "`reasoning.mode` may run several models: leave it out"
    for name, values in _PRICED_VALUES.items():
        if body.get(name) not in values:
            value = str(body[name])[:64]
            yield f"`{name}: {value}` may cost more than the listed price: leave it out"


def _edits(body: Block, _: Sequence[Block], __: Api) -> Iterator[str]:
    """Clearing old parts of a conversation is free; compaction runs a model."""
    management = body.get("context_management")
    edits = management
    if isinstance(management, dict) and management.keys() == {"edits"}:
        edits = management["edits"]
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
