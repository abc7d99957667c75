"""What a model says it used, in the words of each API, brought to one form. Knows no prices."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
Tokens = Annotated[int, msgspec.Meta(ge=0)]
MAX_TOKENS = 1_000_000_000
"""No answer takes as many; sums of what is less stay far inside of 64 bits."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by what they cost; every kind of input apart from the others."""

    fresh: int
    output: int
    cached: int = 0
    cache_write: int = 0
    long_cache_write: int = 0
    """Kept for an hour instead of five minutes."""

    @property
    def input(self) -> int:
        return self.fresh + self.cached + self.cache_write + self.long_cache_write

    @property
    def is_believable(self) -> bool:
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
            fresh=self.input_tokens or 0,
            cached=self.cache_read_input_tokens or 0,
            cache_write=written - long,
            long_cache_write=long,
            output=self.output_tokens or 0,
        )


class _Messages(_Message, frozen=True):
    """`iterations`: every run of a model behind one answer, also such as the sums leave out."""

    iterations: list[_Message] | None = None


def chat_usage(said: Any) -> Usage | None:
    found = _convert(said, _Chat)
    if found is None:
        return None
    return _openai(found.prompt_tokens, found.completion_tokens, found.prompt_tokens_details)


def responses_usage(said: Any) -> Usage | None:
    found = _convert(said, _Responses)
    if found is None:
        return None
    return _openai(found.input_tokens, found.output_tokens, found.input_tokens_details)


def messages_usage(said: Any) -> Usage | None:
    found = _convert(said, _Messages)
    if found is None or found.output_tokens is None:
        return None
    return _larger(found.as_usage(), [one.as_usage() for one in found.iterations or ()])


def _larger(said: Usage, parts: Sequence[Usage]) -> Usage | None:
    """Of every kind what is said of the whole, or the sum of the parts where that is more."""
    most = {
        name: max(getattr(said, name), sum(getattr(part, name) for part in parts))
        for name in Usage.__struct_fields__
    }
    return _believed(Usage(**most))


def _believed(usage: Usage) -> Usage | None:
    return usage if usage.is_believable else None


def _openai(read: int, output: int, details: _InputDetails | None) -> Usage | None:
    """Here the parts are contained in the whole."""
    cached = (details.cached_tokens if details else None) or 0
    written = (details.cache_write_tokens if details else None) or 0
    fresh = max(0, read - cached - written)
    return _believed(Usage(fresh=fresh, cached=cached, cache_write=written, output=output))


def _convert(said: Any, form: type[T]) -> T | None:
    try:
        return msgspec.convert(said, form)
    except msgspec.ValidationError:
        return None
