"""What a model says it used, in the words of each API, brought to one form. Knows no prices."""

from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
Tokens = Annotated[int, msgspec.Meta(ge=0)]


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


class _Messages(msgspec.Struct, frozen=True):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation: _CacheCreation | None = None


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
    written = found.cache_creation_input_tokens or 0
    long = found.cache_creation.ephemeral_1h_input_tokens if found.cache_creation else 0
    long = min(long or 0, written)
    return Usage(
        fresh=found.input_tokens or 0,
        cached=found.cache_read_input_tokens or 0,
        cache_write=written - long,
        long_cache_write=long,
        output=found.output_tokens,
    )


def _openai(read: int, output: int, details: _InputDetails | None) -> Usage:
    """Here the parts are contained in the whole."""
    cached = (details.cached_tokens if details else None) or 0
    written = (details.cache_write_tokens if details else None) or 0
    fresh = max(0, read - cached - written)
    return Usage(fresh=fresh, cached=cached, cache_write=written, output=output)


def _convert(said: Any, form: type[T]) -> T | None:
    try:
        return msgspec.convert(said, form)
    except msgspec.ValidationError:
        return None
