"""Allow-lists of the headers that are forwarded to the provider and to the agent.

A beta feature can change what a request costs, so only known ones are sent while a budget applies.
"""

import re
from collections.abc import Mapping

from agentjobs_runtime.sandbox_http.key_filter import redact_key
from agentjobs_runtime.upstream import Upstream

_PROVIDER_HEADERS = ("accept", "user-agent", "anthropic-version")
# They change the format of requests and responses, but not the price; what they add to a request
# is checked there (`hidden_costs`).
_ANTHROPIC_BETAS = (
    "adaptive-thinking",
    "advanced-tool-use",
    "claude-code",
    "computer-use",
    "context-management",
    "effort",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "output-128k",
    "prompt-caching",
    "prompt-caching-scope",
    "redact-thinking",
    "structured-outputs",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
)
_ALLOWED_BETAS = {
    "anthropic-beta": re.compile(rf"(?:{'|'.join(_ANTHROPIC_BETAS)})-20\d\d-?\d\d-?\d\d"),
    "openai-beta": re.compile(r"responses=(?:experimental|v1)"),
}
_AGENT_HEADERS = frozenset(
    {
        "content-type",
        "content-encoding",
        "cache-control",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "request-id",
        "x-request-id",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
    }
)
_RATE_LIMIT_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")


def provider_headers(
    given: Mapping[str, str], upstream: Upstream, betas: Mapping[str, str]
) -> dict[str, str]:
    passed = {name: given[name] for name in _PROVIDER_HEADERS if name in given}
    name, credential = upstream.credential
    return {
        **passed,
        **betas,
        "content-type": "application/json",
        # The gateway reads the usage from the response.
        "accept-encoding": "identity",
        name: credential,
    }


def select_betas(given: Mapping[str, str], *, has_limit: bool) -> tuple[dict[str, str], list[str]]:
    """The headers to send, and the beta features that are left out of them."""
    betas = {name: given[name] for name in _ALLOWED_BETAS if name in given}
    if not has_limit:
        return betas, []
    removed: list[str] = []
    selected: dict[str, str] = {}
    for name, text in betas.items():
        values = [value.strip() for value in text.split(",") if value.strip()]
        allowed = [value for value in values if _ALLOWED_BETAS[name].fullmatch(value)]
        removed += [value for value in values if value not in allowed]
        if allowed:
            selected[name] = ",".join(allowed)
    return selected, removed


def agent_headers(given: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    """The key is redacted, in case the provider repeats it."""
    passed = {name: value for name, value in given.items() if _passes(name.lower())}
    return {name: redact_key(value, upstream.key) for name, value in passed.items()}


def _passes(name: str) -> bool:
    return name in _AGENT_HEADERS or name.startswith(_RATE_LIMIT_PREFIXES)
