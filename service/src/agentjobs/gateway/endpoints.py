"""The three API endpoints that are forwarded, and how each names its limits and usage."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentjobs.gateway.usage import Usage, chat_usage, messages_usage, responses_usage
from agentjobs_runtime.protocol.upstream import Api, Upstream

# The fields that servers read an output limit from; llama.cpp prefers the last one.
OUTPUT_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`output_limit_fields` are understood by every server of this API."""

    path: str
    api: Api
    output_limit_fields: Sequence[str]
    usage: Callable[[Any], Usage | None]

    def output_limit_field(self, upstream: Upstream) -> str:
        """The field to add to a request without a limit."""
        return upstream.chat_output_limit_field if self is CHAT else self.output_limit_fields[0]


CHAT = Endpoint(
    path="/v1/chat/completions",
    api="openai",
    output_limit_fields=("max_completion_tokens", "max_tokens"),
    usage=chat_usage,
)
RESPONSES = Endpoint(
    path="/v1/responses",
    api="openai",
    output_limit_fields=("max_output_tokens",),
    usage=responses_usage,
)
MESSAGES = Endpoint(
    path="/v1/messages", api="anthropic", output_limit_fields=("max_tokens",), usage=messages_usage
)
ENDPOINTS = {endpoint.path: endpoint for endpoint in (CHAT, RESPONSES, MESSAGES)}
