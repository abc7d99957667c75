"""Signing in with the operator's OpenID provider: authorization code flow with PKCE.

Ends with the identity at the provider; knows nothing about roles.
"""

import hmac
from collections.abc import Callable, Mapping

import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # type: ignore[import-untyped]  # it has no types
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]  # it has no types

from agentjobs.clock import now_ms
from agentjobs.organizations.identities import Identity
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.settings import Settings
from agentjobs.web.openid.errors import begin_again, refused_by_provider, unusable_answer
from agentjobs.web.openid.exchange import Exchange
from agentjobs.web.openid.pending import Pending, new_pending, open_pending, seal_pending
from agentjobs.web.openid.provider import Document, Provider
from agentjobs.web.openid.tokens import Client, TokenEndpoint

CALLBACK_PATH = "/sign-in/oidc/callback"
_SCOPE = "openid email profile"
_MOST_CODE_CHARACTERS = 8_192


class Started(msgspec.Struct, frozen=True):
    """Where the browser goes now, and what it must bring back: a cookie for ten minutes."""

    url: str
    cookie: str


class Finished(msgspec.Struct, frozen=True):
    """`next` and `invitation` are as `begin` got them."""

    identity: Identity
    next: str
    invitation: str | None


class OpenId:
    """Made once, with settings that name a provider."""

    def __init__(
        self, settings: Settings, keys: SealingKeys, clock: Callable[[], int] = now_ms
    ) -> None:
        self._issuer = settings.oidc_issuer
        self._client = Client(
            id=settings.oidc_client_id,
            secret=settings.oidc_client_secret,
            redirect_uri=settings.effective_public_url + CALLBACK_PATH,
        )
        self._keys = keys
        self._clock = clock
        self._exchange = Exchange(settings)
        self._provider = Provider(settings.oidc_issuer, self._exchange, clock)
        self._tokens = TokenEndpoint(self._client, self._exchange, self._provider, clock)

    async def begin(self, next: str, invitation: str | None) -> Started:
        document = await self._provider.document()
        pending = new_pending(next, invitation, self._clock())
        return Started(
            self._authorization_url(document, pending),
            seal_pending(self._keys, pending, self._issuer),
        )

    async def finish(self, cookie: str, params: Mapping[str, str]) -> Finished:
        pending = open_pending(self._keys, cookie, self._issuer, self._clock())
        _check_state(pending, params)
        document = await self._provider.document()
        _check_issuer(document, params)
        code = _code_in(params)
        identity = await self._tokens.identity_for(document, code, pending)
        return Finished(identity, pending.next, pending.invitation)

    async def close(self) -> None:
        await self._exchange.close()

    def _authorization_url(self, document: Document, pending: Pending) -> str:
        try:
            url: str = prepare_grant_uri(
                document.authorization_endpoint,
                self._client.id,
                "code",
                redirect_uri=self._client.redirect_uri,
                scope=_SCOPE,
                state=pending.state,
                nonce=pending.nonce,
                code_challenge=create_s256_code_challenge(pending.verifier),
                code_challenge_method="S256",
            )
        except ValueError as error:
            reason = f"its authorization_endpoint cannot be used: {error}"
            raise unusable_answer(reason) from None
        return url


def _check_state(pending: Pending, params: Mapping[str, str]) -> None:
    """Before anything else: without it, whoever made the link would choose what is shown."""
    given = params.get("state", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, pending.state.encode()):
        raise begin_again("the state is not that of the cookie")


def _check_issuer(document: Document, params: Mapping[str, str]) -> None:
    """RFC 9207: the answer of another provider must not be taken for one of this."""
    issuer = params.get("iss")
    if issuer is None and not document.authorization_response_iss_parameter_supported:
        return
    if issuer != document.issuer:
        raise unusable_answer(f"the callback is of the issuer {issuer}, not of {document.issuer}")


def _code_in(params: Mapping[str, str]) -> str:
    if error := params.get("error"):
        raise refused_by_provider(error, params.get("error_description", ""))
    code = params.get("code", "")
    if not code or len(code) > _MOST_CODE_CHARACTERS or not code.isprintable():
        raise unusable_answer("the callback has no code that can be used")
    return code
