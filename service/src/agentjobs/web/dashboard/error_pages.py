"""Error pages: what happened and what to do next. Sends browsers without a session to sign in."""

from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentjobs.organizations.sessions import Origin, Viewer, find_viewer
from agentjobs.store.database import StoreError
from agentjobs.web.api.errors import UnknownPathProblem, build_headers, find_status
from agentjobs.web.basic_auth import unauthorized
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.cookies import SESSION, read_cookie
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.other_organizations import InOtherOrganization
from agentjobs.web.dashboard.pages import HEADERS, html_response
from agentjobs.web.dashboard.request_context import AnonymousRequest, PageRequest
from agentjobs_runtime.problems import Problem

_SIGN_IN = "You are not signed in, so nothing was changed. Sign in and try again."
# The fields for longer text. Others are quick to fill in again, or secret.
_LONG_TEXTS = ("prompt", "body", "definition")
_NO_ORIGIN = Origin("", "")
NO_PAGE = "There is no page at this address. It may have been mistyped or removed."


class NotSignedIn(Problem):
    """The browser has no valid session."""


def not_signed_in(request: Request, *, takes_keys: bool) -> Problem:
    # A script of a page has a session, or had one: a browser would ask for a password by itself.
    if takes_keys and not wants_page(request) and "x-part" not in request.headers:
        return unauthorized(
            "Sign in, or send an API key as the password (with any user name) or as a Bearer token."
        )
    return NotSignedIn("not_signed_in", _SIGN_IN)


def wants_page(request: Request) -> bool:
    """Whether the client is a browser asking for a page rather than for the API."""
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and not request.url.path.startswith("/v1/")


async def error_page(request: Request, problem: Problem, request_id: str) -> Response:
    context: WebContext = request.app.state.context
    prefix = context.settings.public_path
    page = requested_page(request, prefix)
    sign_in_url = f"{prefix}/sign-in?next={quote(page, safe='/')}"
    if isinstance(problem, NotSignedIn) and request.method != "POST":
        return RedirectResponse(sign_in_url, status_code=303, headers=HEADERS)
    form = getattr(request.state, "form", Form([]))
    layout = AnonymousRequest(context, request, _NO_ORIGIN, form)
    if viewer := await _viewer(request, context, problem):
        layout = PageRequest(context, request, _NO_ORIGIN, form, viewer)
    status = find_status(problem)
    html = await layout.fragment(
        "error.html",
        # Notices take a query, which may fail again.
        notices=(),
        banner=None,
        problem=problem,
        other_organizations=problem if isinstance(problem, InOtherOrganization) else None,
        # The API's message for an unknown path addresses programs.
        message=NO_PAGE if isinstance(problem, UnknownPathProblem) else problem.message,
        page=page,
        sign_in_url=sign_in_url,
        typed=[text for name in _LONG_TEXTS if (text := form.raw(name).strip())],
        status=status,
        request_id=request_id,
    )
    response = html_response(html, status)
    response.headers.update(build_headers(problem))
    return response


def requested_page(request: Request, prefix: str) -> str:
    """The requested page, or the one from which a form was sent, as the browser says."""
    if request.method == "POST":
        return safe_next(urlsplit(request.headers.get("referer", "")).path.removeprefix(prefix))
    query = f"?{request.url.query}" if request.url.query else ""
    return safe_next(f"{request.url.path}{query}")


async def _viewer(request: Request, context: WebContext, problem: Problem) -> Viewer | None:
    """Must not hide the original error, so an unavailable store is not queried again."""
    token = read_cookie(request, context.settings, SESSION)
    if not token or isinstance(problem, NotSignedIn) or problem.code == "unavailable":
        return None
    try:
        return await find_viewer(context.db, context.settings, token)
    except StoreError:
        return None
