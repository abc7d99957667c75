"""From the bytes an agent sent to a call that may be forwarded: parsed, bounded, made to report.

Pure: decides and rewrites; sends nothing and spends nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentjobs.gateway.content_blocks import (
    FILES,
    IMAGES,
    Block,
    TooManyBlocks,
    blocks_of,
    conversation,
    image_bytes,
    kind_of,
)
from agentjobs.gateway.endpoints import CHAT, MAXIMA, Endpoint
from agentjobs.gateway.errors import RequestRefused
from agentjobs.gateway.hidden_costs import hidden_cost
from agentjobs.gateway.prices import Price
from agentjobs.gateway.upstream import Upstream

BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 16
TOKENS_PER_IMAGE = 5_000
DEFAULT_MAXIMUM = 8_192
MAX_OUTPUT = 10_000_000
MAX_CHOICES = 128
MAX_MODEL_NAME = 256
# A few million brackets would take a gigabyte and a second to parse; text never has as many.
MAX_BRACKETS = 250_000
MAX_COMMAS = 1_000_000
_SMALL = 256 * 1024
# The last one is llama.cpp's.
_CHOICES = ("n", "best_of", "n_cmpl")
# All else might make a server report in the middle what counts only at the end.
_HARMLESS_STREAM_OPTIONS = ("include_obfuscation",)
_TOO_MANY_PARTS = "the request has too many parts; send fewer"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`input_tokens` and `output_tokens` are the most it may take; `body` is what is sent.

    `usage_is_ours`: the client did not ask for the usage that its stream will now report.
    """

    endpoint: Endpoint
    model: str
    body: bytes
    input_tokens: int
    output_tokens: int
    long_cache: bool
    usage_is_ours: bool

    def cost(self, price: Price | None) -> int:
        if price is None:
            return 0
        return price.at_most(self.input_tokens, self.output_tokens, long_cache=self.long_cache)


def parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > _SMALL and _is_a_thicket(raw):
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


def model_of(body: dict[str, Any], upstream: Upstream) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestRefused(400, "invalid_request", "the request must name a model")
    if len(model) > MAX_MODEL_NAME:
        message = f"the name of a model has at most {MAX_MODEL_NAME} characters"
        raise RequestRefused(400, "invalid_request", message)
    if not upstream.allows(model):
        allowed = ", ".join(upstream.models)
        message = f"this agent may not use the model {_short(model)}; it may use: {allowed}"
        raise RequestRefused(403, "model_not_allowed", message)
    return model


def prepare(
    endpoint: Endpoint,
    body: dict[str, Any],
    model: str,
    price: Price | None,
    maximum_name: str,
    *,
    limited: bool,
) -> Call:
    """`limited`: a budget applies, so that nothing may be left open.

    Only then a maximum is added to a request that names none; else the provider's own holds.
    """
    if body.get("background"):
        raise RequestRefused(
            400, "invalid_request", "`background` is not supported: wait for the answer"
        )
    blocks = _blocks(body)
    if limited and (reason := hidden_cost(body, blocks, endpoint.api)):
        message = f"this request cannot be kept within the budget: {reason}"
        raise RequestRefused(400, "cost_unknown", message)
    maximum = _maximum(body)
    room = _default_room(price) if maximum is None else maximum
    changed = dict(body)
    if limited and all(body.get(name) is None for name in endpoint.maxima):
        changed[maximum_name] = room
    usage_is_ours = endpoint is CHAT and _ask_for_usage(changed)
    encoded = _encode(changed)
    return Call(
        endpoint=endpoint,
        model=model,
        body=encoded,
        input_tokens=estimate_input(encoded, blocks, len(conversation(body))),
        output_tokens=room * _choices(body),
        long_cache=b'"ttl":"1h"' in encoded,
        usage_is_ours=usage_is_ours,
    )


def estimate_input(encoded: bytes, blocks: Sequence[Block], messages: int) -> int:
    """Names and punctuation of the JSON count as well: a model sees most of them in some form.

    A picture costs the same whatever its bytes; a file costs its bytes on top.
    """
    pictures = files = picture_size = 0
    for block in blocks:
        kind = kind_of(block)
        if kind in IMAGES:
            pictures += 1
            picture_size += image_bytes(block)
        elif kind in FILES:
            files += 1
    text = -(-max(0, len(encoded) - picture_size) // BYTES_PER_TOKEN)
    return text + TOKENS_PER_MESSAGE * max(1, messages) + TOKENS_PER_IMAGE * (pictures + files)


def _blocks(body: dict[str, Any]) -> list[Block]:
    try:
        return blocks_of(body)
    except TooManyBlocks:
        raise RequestRefused(413, "request_too_large", _TOO_MANY_PARTS) from None


def _is_a_thicket(raw: bytes) -> bool:
    return raw.count(b"{") + raw.count(b"[") > MAX_BRACKETS or raw.count(b",") > MAX_COMMAS


def _default_room(price: Price | None) -> int:
    return (price.max_output_tokens if price else 0) or DEFAULT_MAXIMUM


def _maximum(body: dict[str, Any]) -> int | None:
    """The largest of all that are given, whichever of them the server believes."""
    given = [_count(body, name, 1, MAX_OUTPUT) for name in MAXIMA]
    return max((value for value in given if value is not None), default=None)


def _choices(body: dict[str, Any]) -> int:
    return max(_count(body, name, 1, MAX_CHOICES) or 1 for name in _CHOICES)


def _count(body: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"`{name}` must be a whole number between {least} and {most:,}"
        raise RequestRefused(400, "invalid_request", message)
    return value


def _ask_for_usage(body: dict[str, Any]) -> bool:
    """True if the client had not asked for it itself."""
    if not body.get("stream"):
        return False
    options = body.get("stream_options")
    if not isinstance(options, dict):
        options = {}
    harmless = {name: options[name] for name in _HARMLESS_STREAM_OPTIONS if name in options}
    body["stream_options"] = {**harmless, "include_usage": True}
    return options.get("include_usage") is not True


def _encode(body: dict[str, Any]) -> bytes:
    """Always anew: of a name given twice the provider must see the one that was judged."""
    try:
        return msgspec.json.encode(body)
    except (msgspec.EncodeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise RequestRefused(
            400, "invalid_json", f"the request is not valid JSON: {error}"
        ) from None


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"
