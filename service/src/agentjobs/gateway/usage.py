"""Token usage as each API reports it, converted to one form, and reports of calls. Knows nothing
about prices."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
Tokens = Annotated[int, msgspec.Meta(ge=0)]
MAX_TOKENS = 1_000_000_000
"""More than any response uses; sums of smaller numbers fit into 64 bits."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by price class; the classes of input do not overlap."""

    uncached: int
    output: int
    cached: int = 0
    cache_write: int = 0
    long_cache_write: int = 0
    """Kept for an hour instead of five minutes."""

    @property
    def input(self) -> int:
        return self.uncached + self.cached + self.cache_write + self.long_cache_write

    @property
    def is_plausible(self) -> bool:
        return max(self.input, self.output) <= MAX_TOKENS


class _InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _Chat(msgspec.Struct, frozen=True):
    prompt_tokens: Tokens
    completion_tokens: Tokens = 0
    prompt_tokens_details: _InputDetails | None = None


class _Responses(msgspec.Struct, frozen=True):
    input_tokens: Tokens
    output_tokens: Tokens = 0
    input_tokens_details: _InputDetails | None = None


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: Tokens | None = None


class _Message(msgspec.Struct, frozen=True):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation: _CacheCreation | None = None

    def as_usage(self) -> Usage:
        written = self.cache_creation_input_tokens or 0
        long = self.cache_creation.ephemeral_1h_input_tokens if self.cache_creation else 0
        long = min(long or 0, written)
        return Usage(
            uncached=self.input_tokens or 0,
            cached=self.cache_read_input_tokens or 0,
            cache_write=written - long,
            long_cache_write=long,
            output=self.output_tokens or 0,
        )


class _Messages(_Message, frozen=True):
    """`iterations`: all model runs behind one response, including runs missing in the sums."""

    iterations: list[_Message] | None = None


def chat_usage(reported: Any) -> Usage | None:
    usage = _convert(reported, _Chat)
    if usage is None:
        return None
    return _openai(usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details)


def responses_usage(reported: Any) -> Usage | None:
    usage = _convert(reported, _Responses)
    if usage is None:
        return None
    return _openai(usage.input_tokens, usage.output_tokens, usage.input_tokens_details)


def messages_usage(reported: Any) -> Usage | None:
    usage = _convert(reported, _Messages)
    if usage is None or usage.output_tokens is None:
        return None
    iterations = usage.iterations or ()
    return _combine(usage.as_usage(), [iteration.as_usage() for iteration in iterations])


def _combine(total: Usage, parts: Sequence[Usage]) -> Usage | None:
    """Uses, for each class, the larger of the reported total and the sum of its parts."""
    tokens = {
        name: max(getattr(total, name), sum(getattr(part, name) for part in parts))
        for name in Usage.__struct_fields__
    }
    return _plausible_or_none(Usage(**tokens))


def _plausible_or_none(usage: Usage) -> Usage | None:
    return usage if usage.is_plausible else None


def _openai(read: int, output: int, details: _InputDetails | None) -> Usage | None:
    """OpenAI's input tokens include cached and written ones."""
    cached = (details.cached_tokens if details else None) or 0
    written = (details.cache_write_tokens if details else None) or 0
    uncached = max(0, read - cached - written)
    return _plausible_or_none(
        Usage(uncached=uncached, cached=cached, cache_write=written, output=output)
    )


def _convert(reported: Any, type_: type[T]) -> T | None:
    try:
        return msgspec.convert(reported, type_)
    except msgspec.ValidationError:
        return None


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a model call ended, without its prompt and its response.

    `status` is None without a response, `usage` if the provider did not report it,
    `cost_nanousd` if the model has no price."""

    model: str
    status: int | None
    usage: Usage | None
    cost_nanousd: int | None
    duration_ms: int
