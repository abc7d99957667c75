"""The ways to receivers, kept open: a session for each endpoint, so that none is in another's way.

Owns what may be dialled and trusted, and how many sessions stay; an exchange itself is elsewhere.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

import aiohttp
from yarl import URL

from agentjobs.outbound.addresses import Allowed
from agentjobs.outbound.connector import trusted_certificates
from agentjobs.outbound.hosts import why_host_refused
from agentjobs.outbound.lookups import LookUp, Lookups, system_addresses
from agentjobs.outbound.strangers import RECEIVE_BYTES, StrangerConnector
from agentjobs.webhooks.attempt import (
    Limits,
    Request,
    SeenRequest,
    failed_attempt,
    make_attempt,
    note_dial,
)
from agentjobs.webhooks.failures import Failure, blocked, invalid
from agentjobs.webhooks.model import Attempt

MOST_SESSIONS = 512
MOST_TARGETS = 4_096
LOOKUPS_OF_AN_ENDPOINT = 2
LOOKUPS_OF_ALL = 64

# The operator chose the proxy, wherever it is.
_ANYWHERE = Allowed.parse(["0.0.0.0/0", "::/0"])


class Target(NamedTuple):
    """A URL as it was judged once: a `refusal` never changes."""

    url: URL
    is_proxied: bool
    refusal: Failure | None


class OpenSession:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.attempts = 0


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
        self._base_headers = {
            "User-Agent": f"agentjobs/{version('agentjobs')}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        self._targets: dict[str, Target] = {}
        self._sessions: OrderedDict[tuple[str, str], OpenSession] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def attempt(
        self, endpoint_id: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> Attempt:
        """Raises nothing but CancelledError, and OutOfRoom."""
        target = self._targets.get(url) or self._judged(url)
        proxy = self._proxy if target.is_proxied else None
        request = Request(target.url, {**self._base_headers, **headers}, body, proxy)
        if target.refusal is not None:
            return failed_attempt(request, target.refusal)
        opened = self._session_of(endpoint_id, target)
        opened.attempts += 1
        try:
            return await make_attempt(opened.session, request, self._limits)
        finally:
            opened.attempts -= 1

    async def close(self) -> None:
        for opened in self._sessions.values():
            self._close(opened)
        self._sessions.clear()
        await asyncio.gather(*self._closing)

    def _judged(self, url: str) -> Target:
        if len(self._targets) >= MOST_TARGETS:
            self._targets.clear()
        self._targets[url] = target = self._target(url)
        return target

    def _target(self, text: str) -> Target:
        try:
            url = URL(text)
        except ValueError as error:
            return Target(URL(), False, invalid(str(error)))
        if url.scheme not in {"https", "http"} or not url.raw_host:
            return Target(url, False, invalid("it begins with neither https:// nor http://"))
        # What http may reach is the operator's own, and not behind a proxy.
        is_proxied = self._proxy is not None and url.scheme == "https"
        return Target(url, is_proxied, self._refusal(url.scheme, url.raw_host))

    def _refusal(self, scheme: str, host: str) -> Failure | None:
        reason = why_host_refused(host, self._allowed_for(scheme))
        if reason is None:
            return None
        sentence = f"{reason}; {self._allowed.setting} lists what may be reached"
        return blocked(sentence, is_tls=scheme == "https")

    def _allowed_for(self, scheme: str) -> Allowed:
        return self._allowed if scheme == "https" else self._allowed.alone()

    def _session_of(self, endpoint_id: str, target: Target) -> OpenSession:
        key = (endpoint_id, target.url.scheme)
        opened = self._sessions.get(key)
        if opened is None:
            self._sessions[key] = opened = OpenSession(self._new_session(target))
            self._close_idle(but=opened)
        else:
            self._sessions.move_to_end(key)
        return opened

    def _new_session(self, target: Target) -> aiohttp.ClientSession:
        allowed = _ANYWHERE if target.is_proxied else self._allowed_for(target.url.scheme)
        lookups = Lookups(self._look_up, LOOKUPS_OF_AN_ENDPOINT, self._threads)
        return aiohttp.ClientSession(
            connector=StrangerConnector(allowed, tls=self._tls, lookups=lookups, on_dial=note_dial),
            request_class=SeenRequest,
            # The rest of the time is limited around the whole exchange.
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._limits.connect_seconds, ceil_threshold=float("inf")
            ),
            read_bufsize=RECEIVE_BYTES,
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _close_idle(self, but: OpenSession) -> None:
        """Down to the bound, the longest unused first; those in use may exceed it."""
        for key, opened in list(self._sessions.items()):
            if len(self._sessions) <= MOST_SESSIONS:
                return
            if opened.attempts == 0 and opened is not but:
                del self._sessions[key]
                self._close(opened)

    def _close(self, opened: OpenSession) -> None:
        # Apart: no attempt waits for the connections of another endpoint.
        closing = asyncio.create_task(opened.session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
