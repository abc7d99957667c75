"""Authentication for git and browsers: an API key as Basic password or as Bearer token."""

import base64

from starlette.requests import Request

from agentjobs.organizations.authentication import AddressNotAllowed, Caller
from agentjobs.web.api.auth import CALLER, read_credentials
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.context import WebContext
from agentjobs_runtime.problems import Problem

# Browsers and git prompt for a password when they receive this challenge.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="agentjobs", charset="UTF-8"'}


def read_token(request: Request) -> str:
    """The empty string if the header is missing, repeated or malformed."""
    scheme, credentials = read_credentials(request.scope)
    if scheme == "bearer":
        return credentials
    return _password(credentials) if scheme == "basic" else ""


async def authenticate_caller(request: Request) -> Caller:
    context: WebContext = request.app.state.context
    address = context.client_addresses.of(request.scope)
    try:
        caller = await context.authenticator.authenticate(read_token(request), address)
    except AddressNotAllowed as problem:
        raise unauthorized(problem.message) from None
    if caller is None:
        raise unauthorized(
            "Send an API key as the password (with any user name) or as a Bearer token;"
            " `agentjobs keys create` creates one."
        )
    request.scope[CALLER] = caller
    return caller


def unauthorized(message: str) -> Problem:
    return HttpProblem("unauthorized", message, headers=_CHALLENGE)


def _password(encoded: str) -> str:
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return ""
    return pair.partition(":")[2]
