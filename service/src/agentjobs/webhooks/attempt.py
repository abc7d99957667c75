"""One attempt: sign the stored bytes, send them, read the response. The same for every delivery.

Whatever a receiver can cause becomes an Attempt. Only ResourcesExhausted is raised: it is this
machine's problem, not the receiver's. Stores nothing.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Self
from weakref import WeakValueDictionary

from yarl import URL

from agentjobs.webhooks.failures import (
    Failure,
    ResourcesExhausted,
    Timeouts,
    classify_error,
    classify_status,
    is_resource_exhaustion,
    is_success,
    malformed_request,
)
from agentjobs.webhooks.model import Attempt, ClaimedDelivery, Headers
from agentjobs.webhooks.request import Receiver, Request, build_request, parse_receiver
from agentjobs.webhooks.signing import SecretOpener, signed_headers
from agentjobs.webhooks.trace import delivery_span, record_attempt
from agentjobs.webhooks.untrusted_http.connection import UntrustedConnection
from agentjobs.webhooks.untrusted_http.pool import ConnectionPool, Progress, connect
from agentjobs.webhooks.untrusted_http.response import RawHeaders, Response
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import HostResolver, Lookup, system_lookup
from agentjobs_runtime.outbound.guard.sessions import load_tls_context
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.tracing.trace_context import HEADER as TRACEPARENT
from agentjobs_runtime.tracing.trace_context import write_traceparent

BODY_SECONDS = 2
# Bounds on the response headers that are logged.
MAX_LOGGED_HEADERS = 100
MAX_LOGGED_HEADER_BYTES = 16 * 1024
MAX_CACHED_RECEIVERS = 4_096
MAX_LOOKUPS_PER_ENDPOINT = 2
MAX_LOOKUPS = 64


async def send(
    delivery: ClaimedDelivery, secrets: SecretOpener, client: "WebhookClient", at_ms: int
) -> Attempt:
    """Raises Problem if this machine cannot open the secret.

    `at_ms` is the database's time: receivers refuse a signature whose time is some minutes off,
    and pending secrets and retries are due by that clock.
    """
    opened = secrets.open(delivery.organization_id, delivery.endpoint_id, delivery.secrets, at_ms)
    headers = signed_headers(delivery, opened, at_ms)
    with delivery_span(delivery) as span:
        if traceparent := write_traceparent(span):
            headers[TRACEPARENT] = traceparent
        attempt = await client.post(
            delivery.endpoint_id, delivery.url, headers, delivery.body, at_ms=at_ms
        )
        record_attempt(span, attempt)
        return attempt


class WebhookClient:
    """Belongs to the event loop that creates it. No attempt may start after `close`."""

    def __init__(
        self,
        allowed: AllowList,
        *,
        ca_file: str = "",
        proxy: str = "",
        timeout_seconds: float,
        connect_seconds: float,
        lookup: Lookup = system_lookup,
    ) -> None:
        """Raises ValueError if the operator's certificates cannot be read."""
        self._allowed = allowed
        self._tls = load_tls_context(ca_file)
        self._proxy = URL(proxy) if proxy else None
        self._timeouts = Timeouts(timeout_seconds, connect_seconds)
        self._lookup = lookup
        self._lookup_threads = threading.Semaphore(MAX_LOOKUPS)
        # HostResolver in progress keep the resolver alive; without any, its limit does not matter.
        self._resolvers: WeakValueDictionary[str, HostResolver] = WeakValueDictionary()
        self._receivers: dict[str, Receiver] = {}
        self._pool = ConnectionPool()

    @classmethod
    def from_settings(cls, settings: Settings, allowed: AllowList) -> Self:
        return cls(
            allowed,
            ca_file=settings.ca_file,
            proxy=settings.webhooks_proxy,
            timeout_seconds=settings.webhook_timeout_seconds,
            connect_seconds=settings.webhook_connect_seconds,
        )

    def set_allowed(self, allowed: AllowList) -> bool:
        """Applies to new connections. False if nothing changed."""
        if allowed == self._allowed:
            return False
        self._allowed = allowed
        self._receivers.clear()
        return True

    async def post(
        self, endpoint_id: str, url: str, headers: Mapping[str, str], body: bytes, *, at_ms: int
    ) -> Attempt:
        """Raises only CancelledError and ResourcesExhausted."""
        receiver = self._receivers.get(url) or self._add_receiver(url)
        request = build_request(receiver, headers, body)
        progress = _AttemptProgress(at_ms)
        if receiver.refusal is not None:
            return _without_response(progress, request, receiver.refusal)
        if request.is_malformed:
            return _without_response(progress, request, malformed_request())
        failure = await self._exchange(endpoint_id, receiver, request, progress)
        # The response head decides: a late, cut off or malformed body does not change the result.
        if (response := progress.response) is not None:
            return _with_response(progress, request, response)
        return _without_response(progress, request, self._classify(failure, receiver, progress))

    async def close(self) -> None:
        await self._pool.close()

    def _add_receiver(self, url: str) -> Receiver:
        if len(self._receivers) >= MAX_CACHED_RECEIVERS:
            self._receivers.clear()
        receiver = parse_receiver(url, self._allowed, self._tls, self._proxy)
        self._receivers[url] = receiver
        return receiver

    async def _exchange(
        self, endpoint_id: str, receiver: Receiver, request: Request, progress: "_AttemptProgress"
    ) -> Exception | None:
        """Returns what ended the exchange before its end, if anything did."""
        deadline = asyncio.get_running_loop().time() + self._timeouts.total_seconds
        key = (endpoint_id, receiver.origin)
        try:
            connection = self._pool.acquire(key)
            if connection is None:
                async with asyncio.timeout(self._timeouts.connect_seconds):
                    connection = await self._connect(endpoint_id, receiver, progress)
            progress.connection = connection
            progress.address = connection.address
            progress.stage = "exchange"
            await connection.send_request(request.data, deadline, BODY_SECONDS)
        except asyncio.CancelledError:
            # The receiver has responded: sending again for the sake of the body is wrong.
            if progress.response is None:
                raise
            _uncancel()
        except Exception as error:  # noqa: BLE001 - whatever a receiver causes is a result
            return error
        finally:
            if progress.connection is not None:
                self._pool.release(key, progress.connection)
        return None

    async def _connect(
        self, endpoint_id: str, receiver: Receiver, progress: Progress
    ) -> UntrustedConnection:
        resolver = self._resolvers.get(endpoint_id)
        if resolver is None:
            resolver = HostResolver(self._lookup, MAX_LOOKUPS_PER_ENDPOINT, self._lookup_threads)
            self._resolvers[endpoint_id] = resolver
        return await connect(receiver.origin, receiver.allowed, resolver, progress)

    def _classify(self, error: Exception | None, receiver: Receiver, progress: Progress) -> Failure:
        error = error or RuntimeError("no response")
        if progress.stage != "exchange" and is_resource_exhaustion(error):
            raise ResourcesExhausted(str(error))
        return classify_error(error, progress.stage, receiver.origin, self._timeouts)


class _AttemptProgress(Progress):
    """What is known of an attempt so far; it owns its connection until it ends."""

    __slots__ = ("at", "connection", "started")

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self.at = at_ms
        self.started = time.monotonic()
        self.connection: UntrustedConnection | None = None

    @property
    def response(self) -> Response | None:
        """None until its head has arrived."""
        connection = self.connection
        return connection.response if connection and connection.has_response_head else None


def _uncancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


def _with_response(progress: _AttemptProgress, request: Request, response: Response) -> Attempt:
    assert progress.connection is not None
    failure = None if is_success(response.status) else _classify_response(response)
    return Attempt(
        at=progress.at,
        duration_ms=round((progress.connection.responded_at - progress.started) * 1_000),
        request_headers=request.headers,
        address=progress.address,
        status_code=response.status,
        response_headers=_logged_headers(response.headers),
        response_body=bytes(response.body),
        error_class=failure and failure.error_class,
        error=failure and failure.error,
    )


def _without_response(progress: _AttemptProgress, request: Request, failure: Failure) -> Attempt:
    return Attempt(
        at=progress.at,
        duration_ms=round((time.monotonic() - progress.started) * 1_000),
        request_headers=request.headers,
        address=progress.address,
        error_class=failure.error_class,
        error=failure.error,
    )


def _classify_response(response: Response) -> Failure:
    locations = (value for name, value in response.headers if name.lower() == b"location")
    location = _decode(next(locations, b""))
    return classify_status(response.status, _decode(response.reason), location)


def _logged_headers(raw: RawHeaders) -> Headers:
    logged: list[tuple[str, str]] = []
    bytes_left = MAX_LOGGED_HEADER_BYTES
    for name, value in raw[:MAX_LOGGED_HEADERS]:
        bytes_left -= len(name) + len(value)
        if bytes_left < 0:
            break
        logged.append((_decode(name), _decode(value)))
    return tuple(logged)


def _decode(raw: bytes) -> str:
    """Never yields a lone surrogate; the HTTP parser already rejects control characters."""
    return raw.decode("utf-8", "replace")
