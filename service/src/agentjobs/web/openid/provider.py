"""The provider's discovery document and keys, validated before use and cached."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
from authlib.oidc.discovery import get_well_known_url  # type: ignore[import-untyped]  # it has no types

from agentjobs.web.openid.errors import invalid_response
from agentjobs.web.openid.exchange import Exchange
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.settings import is_loopback

# How long a document is cached, and how often it is refreshed at most.
MAX_AGE_MS = 3600 * SECOND_MS
MIN_REFRESH_INTERVAL_MS = 60 * SECOND_MS

PublishedKey = dict[str, Any]
T = TypeVar("T")


class Document(msgspec.Struct, frozen=True):
    """The fields of the discovery document that we use, with the standard's defaults."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    id_token_signing_alg_values_supported: tuple[str, ...] = ("RS256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        addresses = (self.authorization_endpoint, self.token_endpoint, self.jwks_uri)
        return addresses if self.userinfo_endpoint is None else (*addresses, self.userinfo_endpoint)


class _Keys(msgspec.Struct, frozen=True):
    keys: tuple[PublishedKey, ...]


class CachedDocument(Generic[T]):
    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Callable[[], int]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._refreshed_at: int | None = None
        self._cached: tuple[int, T] | None = None

    async def value(self) -> T:
        if self._cached is not None and self._is_within(self._cached[0], MAX_AGE_MS):
            return self._cached[1]
        value = await self._fetch()
        self._cached = (self._clock(), value)
        return value

    async def refresh(self) -> T:
        """Fetches again, at most once a minute."""
        if not self._is_within(self._refreshed_at, MIN_REFRESH_INTERVAL_MS):
            self._refreshed_at = self._clock()
            self._cached = None
        return await self.value()

    def _is_within(self, since: int | None, milliseconds: int) -> bool:
        # Negative if the clock was set back.
        return since is not None and 0 <= self._clock() - since < milliseconds


class Provider:
    def __init__(self, issuer: str, exchange: Exchange, clock: Callable[[], int]) -> None:
        self._issuer = issuer
        self._exchange = exchange
        self._document = CachedDocument(self._fetch_document, clock)
        self._keys = CachedDocument(self._fetch_keys, clock)

    async def document(self) -> Document:
        return await self._document.value()

    async def keys(self) -> tuple[PublishedKey, ...]:
        return await self._keys.value()

    async def refresh_keys(self) -> tuple[PublishedKey, ...]:
        return await self._keys.refresh()

    async def _fetch_document(self) -> Document:
        url = get_well_known_url(self._issuer, external=True)
        document = await self._fetch(url, Document)
        # The discovery address ignores a trailing slash of the issuer.
        if document.issuer.rstrip("/") != self._issuer.rstrip("/"):
            reason = f"{url} has the issuer {document.issuer}, not oidc_issuer {self._issuer}"
            raise invalid_response(reason)
        for address in document.addresses:
            if not _is_valid_address(address, self._issuer):
                raise invalid_response(f"{url} contains an invalid address: {address}")
        return document

    async def _fetch_keys(self) -> tuple[PublishedKey, ...]:
        document = await self.document()
        return (await self._fetch(document.jwks_uri, _Keys)).keys

    async def _fetch(self, url: str, form: type[T]) -> T:
        response = await self._exchange.get(url)
        if response.status != 200:
            raise invalid_response(f"{url} returned {response.status}")
        return response.decode(form)


def _is_valid_address(address: str, issuer: str) -> bool:
    """https, or http on this machine if the issuer is, too."""
    if not (address.isascii() and address.isprintable()) or " " in address:
        return False
    try:
        parts = urlsplit(address)
        is_local = is_loopback(parts.hostname or "")
    except ValueError:
        return False
    if "@" in parts.netloc or parts.fragment or not parts.hostname:
        return False
    return parts.scheme == "https" or (
        parts.scheme == "http" and is_local and issuer.startswith("http://")
    )
