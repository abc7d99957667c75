"""Authenticates API requests by bearer token and checks the scope of the key."""

import contextlib

from starlette.types import Scope

from agentjobs.organizations.api_keys import Scope as KeyScope
from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.headers import all_headers
from agentjobs.web.context import WebContext
from agentjobs_runtime.problems import Problem

READING_METHODS = frozenset({"GET", "HEAD"})
# The access log reads the caller from the scope.
CALLER = "agentjobs.caller"

# Changes of keys are announced, but expiry is not.
_EXPIRY_CHECK_SECONDS = 20.0


async def authenticate(context: WebContext, scope: Scope) -> Caller:
    token = bearer_token(scope)
    address = context.client_addresses.of(scope)
    caller = None if token is None else await context.authenticator.authenticate(token, address)
    if caller is None:
        raise unauthorized()
    scope[CALLER] = caller
    return caller


async def wait_until_revoked(context: WebContext, scope: Scope) -> None:
    """Returns when the token of a long request is no longer valid for its client."""
    with context.db.changes.listen("keys") as signal, contextlib.suppress(Problem):
        while True:
            await authenticate(context, scope)
            await signal.wait(_EXPIRY_CHECK_SECONDS)


def check_scope(caller: Caller, needed: KeyScope) -> None:
    """Every key may read."""
    scopes = caller.scope.split()
    if needed == "read" or needed in scopes:
        return
    raise Problem(
        "insufficient_scope",
        f"This request requires an API key with the scope `{needed}`; "
        f"this key has `{'`, `'.join(scopes)}`. An admin can create another key.",
        details={"scope": needed},
    )


def unauthorized() -> Problem:
    return Problem(
        "unauthorized",
        "Send a valid API key as `Authorization: Bearer <API_KEY>`. "
        "The key is missing, malformed, unknown, expired or revoked.",
    )


def bearer_token(scope: Scope) -> str | None:
    """The token of the Authorization header; None if the header is missing or repeated."""
    scheme, token = read_credentials(scope)
    return token if scheme == "bearer" else None


def read_credentials(scope: Scope) -> tuple[str, str]:
    """The scheme and the rest of the Authorization header; empty if it is missing or repeated."""
    values = all_headers(scope, b"authorization")
    if len(values) != 1:
        return "", ""
    scheme, _, credentials = values[0].decode("latin-1").partition(" ")
    return scheme.lower(), credentials.strip()
