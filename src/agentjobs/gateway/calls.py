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
from agentjobs.gateway.endpoints import CHAT, OUTPUT_LIMIT_FIELDS, Endpoint
from agentjobs.gateway.errors import RequestRefused
from agentjobs.gateway.hidden_costs import hidden_cost
from agentjobs.gateway.prices import Price
from agentjobs.gateway.upstream import Upstream

BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 16
TOKENS_PER_IMAGE = 5_000
DEFAULT_MAX_OUTPUT = 8_192
MAX_OUTPUT = 10_000_000
MAX_CHOICES = 128
MAX_MODEL_NAME = 256
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

    `hide_usage`: the client did not ask for the usage that the stream will contain.
    """

    endpoint: Endpoint
    model: str
    body: bytes
    input_tokens: int
    output_tokens: int
    long_cache: bool
    hide_usage: bool

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
) -> Call:
    """`has_limit`: a budget applies, so the cost must be bounded.

    Only then is an output limit added to a request without one; otherwise the provider's applies.
    """
    if body.get("background"):
        raise RequestRefused(
            400, "invalid_request", "`background` is not supported: wait for the response"
        )
    blocks = _blocks(body)
    if has_limit and (reason := hidden_cost(body, blocks, endpoint.api)):
        message = f"the cost of this request cannot be bounded: {reason}"
        raise RequestRefused(400, "cost_unknown", message)
    max_output = _max_output(body) or _default_max_output(price)
    changed = dict(body)
    if has_limit and all(body.get(name) is None for name in endpoint.output_limit_fields):
        changed[output_limit_field] = max_output
    hide_usage = endpoint is CHAT and _request_usage(changed)
    encoded = _encode(changed)
    return Call(
        endpoint=endpoint,
        model=model,
        body=encoded,
        input_tokens=estimate_input(encoded, blocks, len(conversation(body))),
        output_tokens=max_output * _choices(body),
        long_cache=b'"ttl":"1h"' in encoded,
        hide_usage=hide_usage,
    )


def estimate_input(encoded: bytes, blocks: Sequence[Block], messages: int) -> int:
    """An upper estimate of the input tokens, from the bytes of the request.

    JSON keys and punctuation count too, since a model sees most of them in some form. An image
    counts as a fixed number of tokens; a file counts as its bytes in addition.
    """
    images = files = image_size = 0
    for block in blocks:
        kind = block_type(block)
        if kind in IMAGES:
            images += 1
            image_size += image_bytes(block)
        elif kind in FILES:
            files += 1
    text = -(-max(0, len(encoded) - image_size) // BYTES_PER_TOKEN)
    return text + TOKENS_PER_MESSAGE * max(1, messages) + TOKENS_PER_IMAGE * (images + files)


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
