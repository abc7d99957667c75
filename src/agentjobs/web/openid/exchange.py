"""Requests to the provider: bounded in size and time, and never redirected.

Knows JSON and failures of the way there; refuses to know what the provider is asked for.
"""

from collections.abc import Mapping
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.outbound.guard.sessions import load_tls_context, new_session
from agentjobs.settings import Settings, SettingsError
from agentjobs.web.openid.errors import provider_unavailable, unusable_answer

MOST_BYTES = 1024 * 1024
TIMEOUT_SECONDS = 10

# The operator named the provider, so it may be in the operator's own network. Cloud metadata
# services, multicast and the like are no providers.
_PRIVATE_NETWORKS = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
)
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    url: str
    status: int
    body: bytes

    def read_as(self, form: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body, type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"{self.url} answered {self.status}, not with what was asked for: {error}"
            raise unusable_answer(reason) from None


class Exchange:
    """The session is made by the first request, because it belongs to a running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._ca_file = settings.ca_file
        try:
            self._allowed = AllowList.parse((*_PRIVATE_NETWORKS, *settings.egress_allow))
            if settings.ca_file:
                load_tls_context(settings.ca_file)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._ask("GET", url, headers or {}, None)

    async def post(self, url: str, headers: Mapping[str, str], form: Mapping[str, str]) -> Answer:
        return await self._ask("POST", url, headers, form)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> Answer:
        if self._session is None:
            self._session = new_session(self._allowed, self._ca_file)
        try:
            async with self._session.request(
                method,
                URL(url, encoded=True),
                headers={**_HEADERS, **headers},
                data=form,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
            ) as response:
                return await _read(url, response)
        except TimeoutError:
            reason = f"{url}: no answer within {TIMEOUT_SECONDS} seconds"
            raise provider_unavailable(reason) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Why a connection failed, or was not even tried, is told inside.
            told = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            raise provider_unavailable(f"{url}: {type(told).__name__}: {told}") from None


async def _read(url: str, response: aiohttp.ClientResponse) -> Answer:
    if response.status >= 500 or response.status == 429:
        raise provider_unavailable(f"{url} answered {response.status}")
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MOST_BYTES:
            raise unusable_answer(f"{url}: its answer is longer than {MOST_BYTES} bytes")
    return Answer(url, response.status, bytes(body))
