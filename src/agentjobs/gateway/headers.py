"""Which headers pass: a list of the few that are needed, and nothing else in either direction."""

from collections.abc import Mapping

from agentjobs.gateway.key_filter import without_key
from agentjobs.gateway.upstream import Upstream

_TO_THE_PROVIDER = ("accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
_TO_THE_AGENT = frozenset(
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
_LIMITS = ("anthropic-ratelimit-", "x-ratelimit-")


def to_provider(given: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    passed = {name: given[name] for name in _TO_THE_PROVIDER if name in given}
    name, credential = upstream.credential
    return {
        **passed,
        "content-type": "application/json",
        # The usage must be readable as it passes.
        "accept-encoding": "identity",
        name: credential,
    }


def to_agent(given: Mapping[str, str], upstream: Upstream) -> dict[str, str]:
    """Never with the key in them, whatever the provider repeats."""
    passed = {name: value for name, value in given.items() if _passes(name.lower())}
    return {name: without_key(value, upstream.key) for name, value in passed.items()}


def _passes(name: str) -> bool:
    return name in _TO_THE_AGENT or name.startswith(_LIMITS)
