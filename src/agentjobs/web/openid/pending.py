"""A sign-in that was begun and is not finished yet: it lies sealed in a cookie, nowhere else.

Nothing of it can be read or made up by the browser that keeps it, and it ends by itself.
"""

import base64
import binascii
import secrets

import msgspec

from agentjobs.clock import SECOND_MS
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.web.openid.errors import begin_again, sign_in_failed

KEPT_MS = 600 * SECOND_MS
# Browsers keep 4,096 characters of a cookie, its name and its attributes included.
MOST_COOKIE_CHARACTERS = 3_800

# As the cookie writes them.
_MOST_NEXT_BYTES = 1_500
_MOST_INVITATION_BYTES = 500
_PURPOSE = "openid sign-in"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    nonce: str
    verifier: str
    next: str
    invitation: str | None
    made_at: int


def new_pending(next: str, invitation: str | None, now_ms: int) -> Pending:
    if invitation is not None and not _fits(invitation, _MOST_INVITATION_BYTES):
        raise sign_in_failed(
            "This is not a whole invitation. Open the link in it once more, from its beginning to "
            "its end.",
            "the invitation is too long or not printable",
        )
    return Pending(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        # Only where somebody wanted to go: the first page is a good place, too.
        next=next if _fits(next, _MOST_NEXT_BYTES) else "/",
        invitation=invitation,
        made_at=now_ms,
    )


def seal_pending(keys: SealingKeys, pending: Pending, issuer: str) -> str:
    try:
        sealed = keys.seal(msgspec.json.encode(pending).decode(), _PURPOSE, issuer)
    except Problem as problem:
        raise sign_in_failed(
            "No sign-in can be begun here: the operator of this service finds the reason in its "
            "log.",
            problem.message,
        ) from None
    return base64.urlsafe_b64encode(sealed.data).decode().rstrip("=")


def open_pending(keys: SealingKeys, cookie: str, issuer: str, now_ms: int) -> Pending:
    if not cookie:
        raise begin_again("no cookie came back")
    if len(cookie) > MOST_COOKIE_CHARACTERS:
        raise begin_again("the cookie is too long")
    try:
        sealed = base64.b64decode(cookie + "=" * (-len(cookie) % 4), altchars=b"-_", validate=True)
        pending = msgspec.json.decode(keys.open(sealed, _PURPOSE, issuer), type=Pending)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise begin_again("the cookie is none of ours") from None
    except Problem as problem:
        raise begin_again(f"the cookie does not open: {problem.message}") from None
    if now_ms - pending.made_at > KEPT_MS:
        raise begin_again("it was begun too long ago")
    return pending


def _fits(text: str, most: int) -> bool:
    return text.isprintable() and len(msgspec.json.encode(text)) <= most
