"""Who is calling, and may they: the bearer token first, then the scope of its key."""

from starlette.types import Scope

from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.problems import Problem
from agentjobs.web.api.headers import all_headers
from agentjobs.web.context import WebContext

READING_METHODS = frozenset({"GET", "HEAD"})
# Where the access log finds who called.
CALLER = "agentjobs.caller"

# Changes of keys are announced; that one expires is not.
_EXPIRY_LOOK_SECONDS = 20.0


async def authenticate(authenticator: ApiKeyAuthenticator, scope: Scope) -> Caller:
    token = bearer_token(scope)
    caller = None if token is None else await authenticator.authenticate(token)
    if caller is None:
        raise unauthorized()
    scope[CALLER] = caller
    return caller


async def until_refused(context: WebContext, scope: Scope) -> None:
    """CommitRange when the token of a request that lasts is no good any more."""
    token = bearer_token(scope) or ""
    with context.db.changes.listen("keys") as signal:
        while await context.authenticator.authenticate(token) is not None:
            await signal.wait(_EXPIRY_LOOK_SECONDS)


def check_scope(caller: Caller, method: str) -> None:
    if caller.scope == "read" and method not in READING_METHODS:
        raise Problem(
            "insufficient_scope",
            "This API key may only read; use one with the scope `jobs` for this request.",
        )


def unauthorized() -> Problem:
    return Problem(
        "unauthorized",
        "Send a valid API key as `Authorization: Bearer <API_KEY>`; "
        "this one is missing, malformed, unknown, expired or revoked.",
    )


def bearer_token(scope: Scope) -> str | None:
    """The token of the one Authorization header; None when there is none, or more than one."""
    values = all_headers(scope, b"authorization")
    if len(values) != 1:
        return None
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    return token.strip().decode("latin-1")
