"""The three requests that are forwarded, and how each names what the gateway must know of it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentjobs.gateway.upstream import Api, Upstream
from agentjobs.gateway.usage import Usage, chat_usage, messages_usage, responses_usage

# What one server or other reads an output limit from; llama.cpp listens to the last one first.
MAXIMA = ("max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`maxima` are the names that every server of this API reads an output limit from."""

    path: str
    api: Api
    maxima: Sequence[str]
    usage: Callable[[Any], Usage | None]

    def maximum_name(self, upstream: Upstream) -> str:
        """The one to add where a request has none."""
        return upstream.chat_maximum if self is CHAT else self.maxima[0]


CHAT = Endpoint(
    path="/v1/chat/completions",
    api="openai",
    maxima=("max_completion_tokens", "max_tokens"),
    usage=chat_usage,
)
RESPONSES = Endpoint(
    path="/v1/responses", api="openai", maxima=("max_output_tokens",), usage=responses_usage
)
MESSAGES = Endpoint(
    path="/v1/messages", api="anthropic", maxima=("max_tokens",), usage=messages_usage
)
ENDPOINTS = {endpoint.path: endpoint for endpoint in (CHAT, RESPONSES, MESSAGES)}
