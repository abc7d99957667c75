"""The three API endpoints that are forwarded: how each names its limits and usage, and how the
requests of agents name them."""

import hmac
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import web

from agentjobs.gateway.usage import Usage, chat_usage, messages_usage, responses_usage
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.upstream import Api, Upstream

# The fields that servers read an output limit from; llama.cpp prefers the last one.
OUTPUT_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict")
MAX_QUERY = 1_024


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


def check_token(request: web.BaseRequest, token: str) -> None:
    given = request.headers.get("x-api-key") or ""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        given = value.strip() or given
    if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
        raise RequestRefused(
            401, "invalid_api_key", "use the job's own key from its environment variable"
        )


def find_endpoint(request: web.BaseRequest, api: Api) -> Endpoint:
    endpoint = ENDPOINTS.get(request.path)
    if request.method == "POST" and endpoint is not None and endpoint.api == api:
        _check_query(request.rel_url.raw_query_string)
        return endpoint
    paths = [path for path, endpoint in ENDPOINTS.items() if endpoint.api == api]
    served = " and ".join(f"POST {path}" for path in paths)
    raise RequestRefused(404, "not_found", f"this gateway serves only {served}")


def _check_query(raw: str) -> None:
    if len(raw) > MAX_QUERY:
        raise RequestRefused(400, "invalid_request", "the query string is too long")
    if not raw.isascii() or any(byte < 0x20 or byte == 0x7F for byte in unquote_to_bytes(raw)):
        raise RequestRefused(400, "invalid_request", "the query string contains control characters")
