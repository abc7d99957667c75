"""Refusals for people: a page that says what happened and what to do. Who is not signed in is led
to the door."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentjobs.problems import Problem
from agentjobs.web.api.errors import headers_of, status_of
from agentjobs.web.basic_auth import unauthorized
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.pages import HEADERS, html_response, prefix_of, render

_NOBODY = {"viewer": None, "notices": (), "said": "", "place": ""}
_SIGN_IN = "Sign in first; nothing was changed."


class NotSignedIn(Problem):
    """A browser without a session."""


def not_signed_in(request: Request, *, takes_keys: bool) -> Problem:
    if takes_keys and not wants_page(request):
        return unauthorized(
            "Sign in, or give an API key as the password (any user name) or as a Bearer token."
        )
    return NotSignedIn("not_signed_in", _SIGN_IN)


def wants_page(request: Request) -> bool:
    """A person with a browser, at one of the addresses for people."""
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and not request.url.path.startswith("/v1/")


async def refused_page(request: Request, problem: Problem, request_id: str) -> Response:
    context: WebContext = request.app.state.context
    prefix = prefix_of(context.settings)
    if isinstance(problem, NotSignedIn) and request.method != "POST":
        place = request.url.path
        if request.url.query:
            place += f"?{request.url.query}"
        address = f"{prefix}/sign-in?next={quote(place, safe='/')}"
        return RedirectResponse(address, status_code=303, headers=HEADERS)
    status = status_of(problem)
    values = {
        **_NOBODY,
        "prefix": prefix,
        "refused": problem,
        "status": status,
        "request_id": request_id,
    }
    response = html_response(await render("refused.html", values), status)
    response.headers.update(headers_of(problem))
    return response
