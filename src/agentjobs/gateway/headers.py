"""Allow-lists of the headers that are forwarded to the provider and to the agent."""

from collections.abc import Mapping

from agentjobs.gateway.key_filter import redact_key
from agentjobs.gateway.upstream import Upstream

_PROVIDER_HEADERS = ("accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
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


def provider_headers(given: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    passed = {name: given[name] for name in _PROVIDER_HEADERS if name in given}
    name, credential = upstream.credential
    return {
        **passed,
        "content-type": "application/json",
        # The gateway reads the usage from the response.
        "accept-encoding": "identity",
        name: credential,
    }


def agent_headers(given: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    """The key is redacted, in case the provider repeats it."""
    passed = {name: value for name, value in given.items() if _passes(name.lower())}
    return {name: redact_key(value, upstream.key) for name, value in passed.items()}


def _passes(name: str) -> bool:
    return name in _AGENT_HEADERS or name.startswith(_RATE_LIMIT_PREFIXES)
