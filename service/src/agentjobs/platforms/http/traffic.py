"""What this process knows of the requests of a connection: its rate limit, and responses that the
platform can confirm instead of sending them again.

Shared by all operations of a connection. Sends no requests.
"""

import hashlib
from typing import NamedTuple

import msgspec
from multidict import CIMultiDict

from agentjobs.platforms.http.responses import ApiError, Response, parse_rate_limit
from agentjobs.platforms.protocol import RateLimit
from agentjobs_runtime.weighted_cache import WeightedCache

# Shared by all connections: a thousand repositories take about 8 MiB.
MAX_CACHE_BYTES = 32 * 2**20
MAX_CACHED_BYTES = 256 * 1024
MAX_CONNECTIONS = 2_000
# Polls use at most this part of the requests that a platform allows; the rest is for jobs.
POLL_SHARE = 0.5
# No platform has longer periods; a reset further away is a mistake.
MAX_BLOCK_SECONDS = 3_600.0


class PollsPaused(ApiError):
    """The polls of the connection have used their share of its rate limit."""


class _Key(NamedTuple):
    connection: str
    url: str


ResponseCache = WeightedCache[_Key, Response]


class ConnectionTraffic:
    """`key` identifies the connection and its credential among cached `responses`."""

    def __init__(self, key: str = "", responses: ResponseCache | None = None) -> None:
        self.rate_limit: RateLimit | None = None
        self._connection = key
        self._responses = responses
        self._blocked_until = 0.0

    def check(self, platform: str, now: float, *, is_poll: bool) -> None:
        """Before a request. Raises ApiError if the platform would refuse it, and PollsPaused."""
        if now < self._blocked_until:
            message = f"{platform} is busy (rate limit); try again later."
            raise ApiError(message, "away", retry_after_seconds=self._blocked_until - now)
        limit = self.rate_limit
        if not is_poll or limit is None or now >= limit.resets_at:
            return
        if limit.remaining < limit.limit * (1 - POLL_SHARE):
            raise PollsPaused(
                f"Half of the requests that {platform} allows are used; polls wait until it allows"
                " more.",
                "away",
                retry_after_seconds=min(limit.resets_at - now, MAX_BLOCK_SECONDS),
            )

    def observe(self, response: Response, now: float) -> None:
        limit = parse_rate_limit(response, now)
        if limit is not None:
            self.rate_limit = limit

    def block(self, wait_seconds: float, now: float) -> None:
        """The platform has refused a request because of its rate limit."""
        self._blocked_until = now + min(wait_seconds, MAX_BLOCK_SECONDS)

    def cached(self, url: str) -> Response | None:
        """A response with an ETag."""
        return None if self._responses is None else self._responses.get(self._key(url))

    def remember(self, url: str, response: Response) -> None:
        is_cacheable = response.status == 200 and len(response.body) <= MAX_CACHED_BYTES
        if self._responses is not None and is_cacheable and response.headers.get("ETag"):
            self._responses.put(self._key(url), response, len(response.body) + 1_024)

    def _key(self, url: str) -> _Key:
        return _Key(self._connection, url)


class TrafficRegistry:
    """One per process."""

    def __init__(self) -> None:
        self._responses: ResponseCache = WeightedCache(MAX_CACHE_BYTES)
        self._connections: WeightedCache[str, ConnectionTraffic] = WeightedCache(MAX_CONNECTIONS)

    def of(self, connection_id: str, credential: str) -> ConnectionTraffic:
        """A replaced credential starts anew: it has its own rate limit."""
        key = f"{connection_id}:{hashlib.sha256(credential.encode()).hexdigest()}"
        traffic = self._connections.get(key)
        if traffic is None:
            traffic = ConnectionTraffic(key, self._responses)
            self._connections.put(key, traffic)
        return traffic


def confirmed(cached: Response, confirmation: Response) -> Response:
    """The cached response with the headers of the 304 that confirmed it."""
    headers = CIMultiDict(cached.headers)
    for name, value in confirmation.headers.items():
        if not name.lower().startswith("content-"):
            headers[name] = value
    return msgspec.structs.replace(cached, headers=headers)
