"""Exchanges the authorization code for the user's identity, with the userinfo if necessary."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import msgspec

from agentjobs.organizations.identities import Identity
from agentjobs.web.openid.errors import invalid_response, provider_error, sign_in_expired
from agentjobs.web.openid.exchange import Exchange, ProviderResponse
from agentjobs.web.openid.id_token import Expected, UnknownKey, verify_claims
from agentjobs.web.openid.identity import build_identity
from agentjobs.web.openid.pending import Pending
from agentjobs.web.openid.provider import Document, Provider
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Our client registration. Without a secret it is a public client."""

    id: str
    secret: str
    redirect_uri: str

    def __repr__(self) -> str:
        """Omits the secret, because this may be logged."""
        return f"Client(id={self.id!r})"


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


class _TokenError(msgspec.Struct, frozen=True):
    error: str
    error_description: str = ""


class TokenEndpoint:
    def __init__(
        self, client: Client, exchange: Exchange, provider: Provider, clock: Callable[[], int]
    ) -> None:
        self._client = client
        self._exchange = exchange
        self._provider = provider
        self._clock = clock

    async def identity_for(self, document: Document, code: str, pending: Pending) -> Identity:
        tokens = await self._redeem(document, code, pending.verifier)
        expected = Expected(
            issuer=document.issuer,
            client_id=self._client.id,
            nonce=pending.nonce,
            access_token=tokens.access_token,
            algorithms=document.id_token_signing_alg_values_supported,
            now_seconds=self._clock() // SECOND_MS,
        )
        claims = await self._verify(tokens.id_token, expected)
        userinfo: dict[str, Any] = {}
        if not claims.get("email") and document.userinfo_endpoint and tokens.access_token:
            userinfo = await self._userinfo(document.userinfo_endpoint, tokens.access_token)
        return build_identity(document.issuer, claims, userinfo)

    async def _redeem(self, document: Document, code: str, verifier: str) -> _Tokens:
        methods = document.token_endpoint_auth_methods_supported
        headers, credentials = client_authentication(self._client, methods)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._client.redirect_uri,
            "code_verifier": verifier,
            **credentials,
        }
        response = await self._exchange.post(document.token_endpoint, headers, form)
        if response.status != 200:
            raise _error_in(response)
        return response.decode(_Tokens)

    async def _verify(self, id_token: str, expected: Expected) -> dict[str, Any]:
        try:
            return verify_claims(id_token, await self._provider.keys(), expected)
        except UnknownKey:
            pass
        # The provider may have rotated its keys.
        try:
            return verify_claims(id_token, await self._provider.refresh_keys(), expected)
        except UnknownKey:
            reason = "the ID token is signed with a key that the provider does not publish"
            raise invalid_response(reason) from None

    async def _userinfo(self, url: str, access_token: str) -> dict[str, Any]:
        if not (access_token.isascii() and access_token.isprintable()):
            raise invalid_response("the access token is not printable")
        response = await self._exchange.get(url, {"Authorization": f"Bearer {access_token}"})
        if response.status != 200:
            raise invalid_response(f"{url} returned {response.status}")
        return response.decode(dict[str, Any])


def client_authentication(
    client: Client, methods: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers and form fields that authenticate the client."""
    if not client.secret:
        return {}, {"client_id": client.id}
    if "client_secret_post" in methods and "client_secret_basic" not in methods:
        return {}, {"client_id": client.id, "client_secret": client.secret}
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}


def _error_in(response: ProviderResponse) -> Problem:
    token_error = response.decode(_TokenError)
    if token_error.error == "invalid_grant":
        return sign_in_expired(f"the provider refused the code: {token_error.error_description}")
    return provider_error(token_error.error, token_error.error_description)
