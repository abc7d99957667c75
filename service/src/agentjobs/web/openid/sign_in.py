"""Sign-in with the operator's OpenID provider: authorization code flow with PKCE.

Returns an identity; knows nothing about roles.
"""

import hmac
from collections.abc import Callable, Mapping

import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # type: ignore[import-untyped]  # it has no types
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]  # it has no types

from agentjobs.organizations.identities import Identity
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.web.openid.errors import invalid_response, provider_error, sign_in_expired
from agentjobs.web.openid.exchange import Exchange
from agentjobs.web.openid.pending import Pending, new_pending, open_pending, seal_pending
from agentjobs.web.openid.provider import Document, Provider
from agentjobs.web.openid.tokens import Client, TokenEndpoint
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.settings import Settings

CALLBACK_PATH = "/sign-in/oidc/callback"
_SCOPE = "openid email profile"
_MAX_CODE_CHARACTERS = 8_192


class Started(msgspec.Struct, frozen=True):
    """The address to redirect the browser to, and a cookie that it must send back."""

    url: str
    cookie: str


class Finished(msgspec.Struct, frozen=True):
    """`next` and `invitation` are the values passed to `begin`."""

    identity: Identity
    next: str
    invitation: str | None


class OpenId:
    """Requires settings with a provider."""

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
        code = _read_code(params)
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
            reason = f"the authorization_endpoint is not valid: {error}"
            raise invalid_response(reason) from None
        return url


def _check_state(pending: Pending, params: Mapping[str, str]) -> None:
    """Checked first: otherwise the author of a link could choose the error message shown."""
    state = params.get("state", "").encode("utf-8", "replace")
    if not hmac.compare_digest(state, pending.state.encode()):
        raise sign_in_expired("the state does not match the cookie")


def _check_issuer(document: Document, params: Mapping[str, str]) -> None:
    """RFC 9207: rejects responses of another provider."""
    issuer = params.get("iss")
    if issuer is None and not document.authorization_response_iss_parameter_supported:
        return
    if issuer != document.issuer:
        raise invalid_response(f"the callback has the issuer {issuer}, not {document.issuer}")


def _read_code(params: Mapping[str, str]) -> str:
    if error := params.get("error"):
        raise provider_error(error, params.get("error_description", ""))
    code = params.get("code", "")
    if not code or len(code) > _MAX_CODE_CHARACTERS or not code.isprintable():
        raise invalid_response("the callback has no valid code")
    return code
