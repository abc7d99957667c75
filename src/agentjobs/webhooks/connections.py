"""The ways to receivers, kept open for a moment: none of one endpoint is in another's way.

Owns what may be dialled and trusted; an attempt itself is elsewhere.
"""

import threading
from collections.abc import Mapping
from functools import partial
from weakref import WeakValueDictionary

from yarl import URL

from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.outbound.guard.resolver import LookUp, Lookups, system_addresses
from agentjobs.outbound.guard.sessions import trusted_certificates
from agentjobs.outbound.untrusted_http.connection import StrangerConnection
from agentjobs.outbound.untrusted_http.dial import Progress, connect
from agentjobs.outbound.untrusted_http.pool import IdleConnections
from agentjobs.webhooks.attempt import Way, failed_attempt, make_attempt
from agentjobs.webhooks.failures import Limits, unsendable
from agentjobs.webhooks.model import Attempt
from agentjobs.webhooks.receivers import Receiver, receiver, request_to

MOST_RECEIVERS = 4_096
LOOKUPS_OF_AN_ENDPOINT = 2
LOOKUPS_OF_ALL = 64


class Connections:
    """Belongs to the event loop it is made in. No attempt may begin after `close`."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        ca_file: str = "",
        proxy: str = "",
        timeout_seconds: float,
        connect_seconds: float,
        look_up: LookUp = system_addresses,
    ) -> None:
        """Raises ValueError if the certificates cannot be read."""
        self._allowed = allowed
        self._tls = trusted_certificates(ca_file)
        self._proxy = URL(proxy) if proxy else None
        self._limits = Limits(timeout_seconds, connect_seconds)
        self._look_up = look_up
        self._threads = threading.Semaphore(LOOKUPS_OF_ALL)
        # Held by those who wait, and by the threads: a bound is needed no longer than these are.
        self._lookups: WeakValueDictionary[str, Lookups] = WeakValueDictionary()
        self._receivers: dict[str, Receiver] = {}
        self._idle = IdleConnections()

    async def attempt(
        self, endpoint_id: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> Attempt:
        """Raises nothing but CancelledError, and OutOfRoom."""
        target = self._receivers.get(url) or self._judged(url)
        request = request_to(target, headers, body)
        if target.refusal is not None:
            return failed_attempt(request, target.refusal)
        if request.is_broken:
            return failed_attempt(request, unsendable())
        way = Way(
            target.origin, (endpoint_id, target.origin), partial(self._connect, endpoint_id, target)
        )
        return await make_attempt(self._idle, way, request, self._limits)

    async def close(self) -> None:
        await self._idle.close()

    def _judged(self, url: str) -> Receiver:
        if len(self._receivers) >= MOST_RECEIVERS:
            self._receivers.clear()
        self._receivers[url] = target = receiver(url, self._allowed, self._tls, self._proxy)
        return target

    async def _connect(
        self, endpoint_id: str, target: Receiver, progress: Progress
    ) -> StrangerConnection:
        lookups = self._lookups.get(endpoint_id)
        if lookups is None:
            lookups = Lookups(self._look_up, LOOKUPS_OF_AN_ENDPOINT, self._threads)
            self._lookups[endpoint_id] = lookups
        return await connect(target.origin, target.allowed, lookups, progress)
