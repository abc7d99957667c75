"""/sign-in and /sign-out: with a password, a one-time link or the OpenID provider."""

from starlette.responses import Response

from agentjobs.organizations.sessions import find_viewer
from agentjobs.organizations.sign_in import sign_in_with_identity, sign_in_with_password
from agentjobs.organizations.sign_in_links import use_link
from agentjobs.organizations.sign_out import end_session
from agentjobs.web.dashboard.cookies import OPENID, SESSION, delete_cookie, read_cookie, set_cookie
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.page_route import PageRoute, PublicRoute, Routes
from agentjobs.web.dashboard.request_context import AnonymousRequest, PageRequest
from agentjobs_runtime.problems import Problem

_DAY_SECONDS = 86_400
_OPENID_SECONDS = 600


async def show(request: AnonymousRequest) -> Response:
    token = request.query_param("token")
    if token and request.http.method == "GET":
        return await _sign_in_with_link(request, token)
    if not request.query_param("next") and await _is_signed_in(request):
        return request.redirect("/")
    return await _page(request, next=safe_next(request.query_param("next") or "/"))


async def submit_password(request: AnonymousRequest) -> Response:
    form = request.form
    email, next_path = form.text("email"), safe_next(form.text("next") or "/")
    try:
        token = await sign_in_with_password(
            request.db,
            request.settings,
            email,
            form.raw("password"),
            request.origin,
            replacing=current_token(request),
        )
    except Problem as problem:
        return await _page(request, next=next_path, email=email, problem=problem)
    return start_session_response(request, token, next_path)


async def start_openid(request: AnonymousRequest) -> Response:
    openid = request.context.openid
    if openid is None:
        raise Problem("not_found", "Sign-in with a provider is not configured.")
    try:
        started = await openid.begin(
            safe_next(request.query_param("next") or "/"), request.query_param("invitation") or None
        )
    except Problem as problem:
        return await _page(request, next="/", problem=problem)
    response = request.redirect("/")
    response.headers["Location"] = started.url
    set_cookie(response, request.settings, OPENID, started.cookie, _OPENID_SECONDS)
    return response


async def finish_openid(request: AnonymousRequest) -> Response:
    openid = request.context.openid
    if openid is None:
        raise Problem("not_found", "Sign-in with a provider is not configured.")
    cookie = read_cookie(request.http, request.settings, OPENID)
    try:
        finished = await openid.finish(cookie, dict(request.http.query_params))
        token = await sign_in_with_identity(
            request.db,
            request.settings,
            finished.identity,
            request.origin,
            invitation=finished.invitation,
            replacing=current_token(request),
        )
    except Problem as problem:
        response = await _page(request, next="/", problem=problem)
    else:
        response = start_session_response(request, token, safe_next(finished.next))
    delete_cookie(response, request.settings, OPENID)
    return response


async def sign_out(request: PageRequest) -> Response:
    await end_session(request.db, read_cookie(request.http, request.settings, SESSION))
    return end_session_response(request, "You have signed out.")


def current_token(request: AnonymousRequest) -> str | None:
    return read_cookie(request.http, request.settings, SESSION) or None


def start_session_response(
    request: AnonymousRequest, token: str, path: str, banner: str = ""
) -> Response:
    response = request.redirect(path, banner=banner)
    seconds = int(request.settings.session_days * _DAY_SECONDS)
    set_cookie(response, request.settings, SESSION, token, seconds)
    return response


def end_session_response(request: AnonymousRequest, banner: str) -> Response:
    response = request.redirect("/sign-in", banner=banner)
    delete_cookie(response, request.settings, SESSION)
    return response


async def _is_signed_in(request: AnonymousRequest) -> bool:
    token = current_token(request)
    return token is not None and await find_viewer(request.db, request.settings, token) is not None


async def _sign_in_with_link(request: AnonymousRequest, token: str) -> Response:
    try:
        session = await use_link(
            request.db, request.settings, token, request.origin, replacing=current_token(request)
        )
    except Problem as problem:
        return await _page(request, next="/", problem=problem)
    return start_session_response(request, session, "/")


async def _page(
    request: AnonymousRequest, *, next: str, email: str = "", problem: Problem | None = None
) -> Response:
    provider = request.settings.oidc_name if request.context.openid else ""
    return await request.render(
        "sign_in.html", next=next, email=email, provider=provider, problem=problem
    )


ROUTES: Routes = [
    PublicRoute("GET", "/sign-in", show),
    PublicRoute("POST", "/sign-in", submit_password),
    PublicRoute("GET", "/sign-in/oidc", start_openid),
    PublicRoute("GET", "/sign-in/oidc/callback", finish_openid),
    PageRoute("POST", "/sign-out", "viewer", sign_out),
]
