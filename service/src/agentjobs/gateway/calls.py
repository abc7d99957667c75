"""Turns the body of an agent's request into a call to forward.

Parses the body, bounds its cost and makes the provider report the usage. Does no I/O.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentjobs.gateway.content_blocks import (
    FILES,
    IMAGES,
    Block,
    TooManyBlocks,
    block_type,
    collect_blocks,
    conversation,
    image_bytes,
)
from agentjobs.gateway.endpoints import CHAT, MESSAGES, OUTPUT_LIMIT_FIELDS, Endpoint
from agentjobs.gateway.hidden_costs import hidden_cost, is_known_field
from agentjobs.gateway.measured_prompts import MeasuredPart, MeasuredPrompts, prompt_digests
from agentjobs.gateway.prices import Price
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.upstream import Upstream

TOKENS_PER_MESSAGE = 16
TOKENS_PER_IMAGE = 5_000
# OpenAI reads images without a lower `detail` in up to 10,000 patches.
TOKENS_PER_DETAILED_IMAGE = 12_000
_LIMITED_DETAIL = ("low", "high")
# Providers add instructions to the prompt: once for tools at all, and for each predefined tool.
TOKENS_FOR_TOOLS = 1_000
TOKENS_PER_PREDEFINED_TOOL = 2_000
_TOOLS_WITHOUT_INSTRUCTIONS = (None, "custom", "function", "namespace")
DEFAULT_MAX_OUTPUT = 8_192
MAX_OUTPUT = 10_000_000
MAX_CHOICES = 128
MAX_MODEL_NAME = 256
MAX_UNKNOWN_FIELDS = 16
# A few million brackets would take a gigabyte and a second to parse; real requests have fewer.
MAX_BRACKETS = 250_000
MAX_COMMAS = 1_000_000
_UNCHECKED_BYTES = 256 * 1024
# The last name is llama.cpp's.
_CHOICES = ("n", "best_of", "n_cmpl")
# Other options might make a server report usage before the end, when it is not final.
_HARMLESS_STREAM_OPTIONS = ("include_obfuscation",)
_TOO_MANY_PARTS = "the request has too many parts"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`input_tokens` and `output_tokens` are upper bounds; `body` is sent to the provider.

    `prompt_digests` identify its prompt, see `measured_prompts`. `unknown_fields` were left out.

    `hide_usage`: the client did not ask for the usage that the stream will contain. `has_limit`: a
    budget applies.
    """

    endpoint: Endpoint
    model: str
    body: bytes
    input_tokens: int
    output_tokens: int
    long_cache: bool
    hide_usage: bool
    has_limit: bool
    prompt_digests: Sequence[bytes]
    unknown_fields: Sequence[str]

    def cost(self, price: Price | None) -> int:
        if price is None:
            return 0
        return price.max_cost(self.input_tokens, self.output_tokens, long_cache=self.long_cache)


def parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > _UNCHECKED_BYTES and _has_too_many_parts(raw):
        raise RequestRefused(413, "request_too_large", _TOO_MANY_PARTS)
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RequestRefused(
            400, "invalid_json", f"the request is not valid JSON: {error}"
        ) from None
    if not isinstance(body, dict):
        raise RequestRefused(400, "invalid_json", "the request must be a JSON object")
    return body


def read_model(body: dict[str, Any], upstream: Upstream) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestRefused(400, "invalid_request", "the request must name a model")
    if len(model) > MAX_MODEL_NAME:
        message = f"the name of the model must have at most {MAX_MODEL_NAME} characters"
        raise RequestRefused(400, "invalid_request", message)
    if not upstream.allows(model):
        allowed = ", ".join(upstream.models)
        message = f"this agent must not use the model {_truncate(model)}; allowed: {allowed}"
        raise RequestRefused(403, "model_not_allowed", message)
    return model


def prepare(
    endpoint: Endpoint,
    body: dict[str, Any],
    model: str,
    price: Price | None,
    output_limit_field: str,
    *,
    has_limit: bool,
    measured: MeasuredPrompts,
) -> Call:
    """`has_limit`: a budget applies, so the cost must be bounded.

    Only then is an output limit added to a request without one; otherwise the provider's applies.
    """
    if body.get("background") not in (None, False):
        raise RequestRefused(
            400, "invalid_request", "`background` is not supported: wait for the response"
        )
    blocks = _blocks(body)
    if has_limit and (reason := hidden_cost(body, blocks, endpoint.api)):
        message = f"the cost of this request cannot be bounded: {reason}"
        raise RequestRefused(400, "cost_unknown", message)
    max_output = _max_output(body) or _default_max_output(price)
    changed = {name: body[name] for name in body if not has_limit or is_known_field(name)}
    unknown = [name for name in body if name not in changed]
    if has_limit and all(body.get(name) is None for name in endpoint.output_limit_fields):
        changed[output_limit_field] = max_output
    hide_usage = endpoint is CHAT and _request_usage(changed)
    encoded = _encode(changed)
    digests = prompt_digests(body) if has_limit else []
    return Call(
        endpoint=endpoint,
        model=model,
        body=encoded,
        input_tokens=_max_prompt(endpoint, encoded, body, blocks, measured.longest_part(digests)),
        output_tokens=max_output * _choices(body),
        long_cache=b'"ttl":"1h"' in encoded,
        hide_usage=hide_usage,
        has_limit=has_limit,
        prompt_digests=digests,
        unknown_fields=unknown[:MAX_UNKNOWN_FIELDS],
    )


def max_input(
    endpoint: Endpoint, encoded: bytes, body: dict[str, Any], blocks: Sequence[Block]
) -> int:
    """The highest number of input tokens that a provider can count: one for every byte.

    A token of any tokenizer covers at least one byte, and an agent can choose text in which each
    covers exactly one. JSON keys and punctuation count too, since a model sees most of them in some
    form. An image counts as a fixed number of tokens; a file counts as its bytes in addition.
    """
    tokens, image_size = len(encoded), 0
    for block in blocks:
        kind = block_type(block)
        if kind in IMAGES:
            tokens += _image_tokens(block, endpoint)
            image_size += image_bytes(block)
        elif kind in FILES:
            tokens += TOKENS_PER_IMAGE
    messages = max(1, len(conversation(body)))
    return max(0, tokens - image_size) + TOKENS_PER_MESSAGE * messages + _tool_tokens(body)


def _tool_tokens(body: dict[str, Any]) -> int:
    tools = body.get("tools")
    if not isinstance(tools, list) or not tools:
        return 0
    kinds = [tool.get("type") if isinstance(tool, dict) else None for tool in tools]
    predefined = sum(kind not in _TOOLS_WITHOUT_INSTRUCTIONS for kind in kinds)
    per_request = TOKENS_PER_MESSAGE * len(tools) + TOKENS_PER_PREDEFINED_TOOL * predefined
    return TOKENS_FOR_TOOLS + per_request


def _max_prompt(
    endpoint: Endpoint,
    encoded: bytes,
    body: dict[str, Any],
    blocks: Sequence[Block],
    part: MeasuredPart | None,
) -> int:
    """Less than a token per byte if the provider has counted the beginning of the prompt."""
    maximum = max_input(endpoint, encoded, body, blocks)
    if part is None:
        return maximum
    rest = {"messages": conversation(body)[part.messages :]}
    return min(maximum, part.tokens + max_input(endpoint, _encode(rest), rest, _blocks(rest)))


def _image_tokens(block: Block, endpoint: Endpoint) -> int:
    image = block.get("image_url")
    detail = image.get("detail") if isinstance(image, dict) else block.get("detail")
    if endpoint is MESSAGES or detail in _LIMITED_DETAIL:
        return TOKENS_PER_IMAGE
    return TOKENS_PER_DETAILED_IMAGE


def _blocks(body: dict[str, Any]) -> list[Block]:
    try:
        return collect_blocks(body)
    except TooManyBlocks:
        raise RequestRefused(413, "request_too_large", _TOO_MANY_PARTS) from None


def _has_too_many_parts(raw: bytes) -> bool:
    return raw.count(b"{") + raw.count(b"[") > MAX_BRACKETS or raw.count(b",") > MAX_COMMAS


def _default_max_output(price: Price | None) -> int:
    return (price.max_output_tokens if price else 0) or DEFAULT_MAX_OUTPUT


def _max_output(body: dict[str, Any]) -> int | None:
    """The largest limit in the request, since servers differ in which field they use."""
    limits = [_read_count(body, name, MAX_OUTPUT) for name in OUTPUT_LIMIT_FIELDS]
    return max((limit for limit in limits if limit is not None), default=None)


def _choices(body: dict[str, Any]) -> int:
    return max(_read_count(body, name, MAX_CHOICES) or 1 for name in _CHOICES)


def _read_count(body: dict[str, Any], name: str, maximum: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        message = f"`{name}` must be a whole number between 1 and {maximum:,}"
        raise RequestRefused(400, "invalid_request", message)
    return value


def _request_usage(body: dict[str, Any]) -> bool:
    """Make the stream report its usage. True if the client did not ask for it itself."""
    if not body.get("stream"):
        return False
    options = body.get("stream_options")
    if not isinstance(options, dict):
        options = {}
    harmless = {name: options[name] for name in _HARMLESS_STREAM_OPTIONS if name in options}
    body["stream_options"] = {**harmless, "include_usage": True}
    return options.get("include_usage") is not True


def _encode(body: dict[str, Any]) -> bytes:
    """Always re-encoded: if a key occurs twice, the provider must see the value checked here."""
    try:
        return msgspec.json.encode(body)
    except (msgspec.EncodeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise RequestRefused(
            400, "invalid_json", f"the request is not valid JSON: {error}"
        ) from None


def _truncate(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"
