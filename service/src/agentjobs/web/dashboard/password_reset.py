"""/password-reset: a new password with a link that an admin made."""

from starlette.responses import Response

from agentjobs.organizations.password_resets import find_reset_link, reset_password
from agentjobs.web.dashboard.page_route import PublicRoute, Routes
from agentjobs.web.dashboard.request_context import AnonymousRequest
from agentjobs.web.dashboard.sign_in import current_token, start_session_response
from agentjobs_runtime.problems import Problem

_PATH = "/password-reset"


async def show(request: AnonymousRequest) -> Response:
    return await _page(request, request.query_param("token"))


async def submit(request: AnonymousRequest) -> Response:
    token, form = request.form.text("token"), request.form
    try:
        if form.raw("new") != form.raw("again"):
            raise Problem("weak_password", "The two passwords do not match.")
        session = await reset_password(
            request.db,
            request.settings,
            token,
            form.raw("new"),
            request.origin,
            replacing=current_token(request),
        )
    except Problem as problem:
        return await _page(request, token, problem)
    banner = "Your password was changed, and you were signed out everywhere else."
    return start_session_response(request, session, "/", banner=banner)


async def _page(request: AnonymousRequest, token: str, problem: Problem | None = None) -> Response:
    link = None
    try:
        link = await find_reset_link(request.db, token)
    except Problem as invalid:
        problem = problem or invalid
    return await request.render("password_reset.html", problem=problem, token=token, link=link)


ROUTES: Routes = [PublicRoute("GET", _PATH, show), PublicRoute("POST", _PATH, submit)]
