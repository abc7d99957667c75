"""The state of a sign-in in progress, kept in an encrypted cookie that expires.

The browser can neither read nor forge it.
"""

import base64
import binascii
import secrets

import msgspec

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.web.openid.errors import sign_in_expired, sign_in_failed
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem

MAX_AGE_MS = 600 * SECOND_MS
# Browsers limit a cookie to 4,096 characters, including name and attributes.
MAX_COOKIE_CHARACTERS = 3_800

# Encoded as JSON.
_MAX_NEXT_BYTES = 1_500
_MAX_INVITATION_BYTES = 500
_PURPOSE = "openid sign-in"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    nonce: str
    verifier: str
    next: str
    invitation: str | None
    made_at: int


def new_pending(next: str, invitation: str | None, now_ms: int) -> Pending:
    if invitation is not None and not _fits(invitation, _MAX_INVITATION_BYTES):
        raise sign_in_failed(
            "The invitation link is incomplete. Open the whole link again.",
            "the invitation is too long or not printable",
        )
    return Pending(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        # Falls back to the first page.
        next=next if _fits(next, _MAX_NEXT_BYTES) else "/",
        invitation=invitation,
        made_at=now_ms,
    )


def seal_pending(keys: SealingKeys, pending: Pending, issuer: str) -> str:
    try:
        sealed = keys.seal(msgspec.json.encode(pending).decode(), _PURPOSE, issuer)
    except Problem as problem:
        raise sign_in_failed(
            "Sign-in is not available. Contact the operator of this service, whose log has the "
            "reason.",
            problem.message,
        ) from None
    return base64.urlsafe_b64encode(sealed.data).decode().rstrip("=")


def open_pending(keys: SealingKeys, cookie: str, issuer: str, now_ms: int) -> Pending:
    if not cookie:
        raise sign_in_expired("the browser sent no cookie")
    if len(cookie) > MAX_COOKIE_CHARACTERS:
        raise sign_in_expired("the cookie is too long")
    try:
        sealed = base64.b64decode(cookie + "=" * (-len(cookie) % 4), altchars=b"-_", validate=True)
        pending = msgspec.json.decode(keys.open(sealed, _PURPOSE, issuer), type=Pending)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise sign_in_expired("the cookie is not valid") from None
    except Problem as problem:
        raise sign_in_expired(f"the cookie cannot be decrypted: {problem.message}") from None
    if now_ms - pending.made_at > MAX_AGE_MS:
        raise sign_in_expired("the sign-in expired")
    return pending


def _fits(text: str, max_bytes: int) -> bool:
    return text.isprintable() and len(msgspec.json.encode(text)) <= max_bytes
