"""HTTP requests to the provider, with limits on size and time, without redirects."""

from collections.abc import Mapping
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from agentjobs.web.openid.errors import invalid_response, provider_unavailable
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.failures import describe_failure
from agentjobs_runtime.outbound.guard.sessions import load_tls_context, new_session
from agentjobs_runtime.settings import Settings, SettingsError

MAX_BYTES = 1024 * 1024
TIMEOUT_SECONDS = 10

# The operator chose the provider, so it may be in a private network, but not at addresses such as
# cloud metadata services or multicast.
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


class ProviderResponse(msgspec.Struct, frozen=True):
    url: str
    status: int
    body: bytes

    def decode(self, form: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body, type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"{self.url} returned {self.status} with an unexpected body: {error}"
            raise invalid_response(reason) from None


class Exchange:
    """Creates its session at the first request, because a session needs a running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._ca_file = settings.ca_file
        try:
            self._allowed = AllowList.parse((*_PRIVATE_NETWORKS, *settings.egress_allow))
            if settings.ca_file:
                load_tls_context(settings.ca_file)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        return await self._request("GET", url, headers or {}, None)

    async def post(
        self, url: str, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> ProviderResponse:
        return await self._request("POST", url, headers, form)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> ProviderResponse:
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
            reason = f"{url}: no response within {TIMEOUT_SECONDS} seconds"
            raise provider_unavailable(reason) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise provider_unavailable(f"{url}: {describe_failure(error)}") from None


async def _read(url: str, response: aiohttp.ClientResponse) -> ProviderResponse:
    if response.status >= 500 or response.status == 429:
        raise provider_unavailable(f"{url} returned {response.status}")
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BYTES:
            raise invalid_response(f"{url}: the response is longer than {MAX_BYTES} bytes")
    return ProviderResponse(url, response.status, bytes(body))
