"""What the provider says about itself: its document and its keys, judged before they are used."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from authlib.oidc.discovery import get_well_known_url  # type: ignore[import-untyped]  # it has no types

from agentjobs.settings import is_loopback
from agentjobs.web.openid.cache import Remembered
from agentjobs.web.openid.errors import unusable_answer
from agentjobs.web.openid.exchange import Exchange

PublishedKey = dict[str, Any]
T = TypeVar("T")


class Document(msgspec.Struct, frozen=True):
    """Of the discovery document what is used here; defaults are those of the standard."""

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


class Provider:
    def __init__(self, issuer: str, exchange: Exchange, clock: Callable[[], int]) -> None:
        self._issuer = issuer
        self._exchange = exchange
        self._document = Remembered(self._fetch_document, clock)
        self._keys = Remembered(self._fetch_keys, clock)

    async def document(self) -> Document:
        return await self._document.value()

    async def keys(self) -> tuple[PublishedKey, ...]:
        return await self._keys.value()

    async def renewed_keys(self) -> tuple[PublishedKey, ...]:
        return await self._keys.renewed()

    async def _fetch_document(self) -> Document:
        url = get_well_known_url(self._issuer, external=True)
        document = await self._published(url, Document)
        # A slash at the end is not a part of it where the document is looked for.
        if document.issuer.rstrip("/") != self._issuer.rstrip("/"):
            reason = f"{url} is of the issuer {document.issuer}, not of oidc_issuer {self._issuer}"
            raise unusable_answer(reason)
        for address in document.addresses:
            if not _is_usable(address, self._issuer):
                raise unusable_answer(f"{url} names an address that cannot be used: {address}")
        return document

    async def _fetch_keys(self) -> tuple[PublishedKey, ...]:
        document = await self.document()
        return (await self._published(document.jwks_uri, _Keys)).keys

    async def _published(self, url: str, form: type[T]) -> T:
        answer = await self._exchange.get(url)
        if answer.status != 200:
            raise unusable_answer(f"{url} answered {answer.status}")
        return answer.read_as(form)


def _is_usable(address: str, issuer: str) -> bool:
    """https, or http on this machine if the issuer is there too."""
    if not (address.isascii() and address.isprintable()) or " " in address:
        return False
    try:
        parts = urlsplit(address)
        is_here = is_loopback(parts.hostname or "")
    except ValueError:
        return False
    if "@" in parts.netloc or parts.fragment or not parts.hostname:
        return False
    return parts.scheme == "https" or (
        parts.scheme == "http" and is_here and issuer.startswith("http://")
    )
