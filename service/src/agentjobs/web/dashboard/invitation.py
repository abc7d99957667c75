"""/invitation: accepting an invitation with an existing account or a new one."""

from starlette.responses import Response

from agentjobs.organizations.invitations import (
    accept_as_new_user,
    accept_invitation,
    find_invitation,
)
from agentjobs.organizations.sessions import Viewer, find_viewer, start_session
from agentjobs.organizations.users import get_user
from agentjobs.web.dashboard.page_route import PublicRoute, Routes
from agentjobs.web.dashboard.request_context import AnonymousRequest
from agentjobs.web.dashboard.sign_in import current_token, start_session_response
from agentjobs_runtime.problems import Problem


async def show(request: AnonymousRequest) -> Response:
    return await _page(request, request.query_param("token"))


async def accept(request: AnonymousRequest) -> Response:
    """A signed-in user can accept only an invitation to their own email address."""
    token, form = request.form.text("token"), request.form
    try:
        invitation = await find_invitation(request.db, token)
        viewer = await _viewer(request)
        if viewer is not None and viewer.email == invitation.email:
            user = await get_user(request.db, viewer.user_id)
            await accept_invitation(request.db, token, user)
        elif invitation.has_account:
            raise Problem(
                "other_invitation",
                f"Sign in as {invitation.email} first, then open the invitation link again.",
            )
        else:
            if form.raw("password") != form.raw("again"):
                raise Problem("weak_password", "The two passwords do not match.")
            user = await accept_as_new_user(
                request.db, token, name=form.text("name"), password=form.raw("password")
            )
    except Problem as problem:
        return await _page(request, token, problem)
    session = await start_session(
        request.db,
        request.settings,
        user.id,
        request.origin,
        organization_id=invitation.organization_id,
        replacing=current_token(request),
        how="invitation",
    )
    return start_session_response(
        request, session, "/", banner=f"Welcome to {invitation.organization}."
    )


async def _page(request: AnonymousRequest, token: str, problem: Problem | None = None) -> Response:
    invitation = None
    try:
        invitation = await find_invitation(request.db, token)
    except Problem as invalid:
        problem = invalid
    return await request.render(
        "invitation.html",
        problem=problem,
        token=token,
        invitation=invitation,
        name=request.form.text("name"),
        signed_in_as=await _viewer(request),
        provider=request.settings.oidc_name if request.context.openid else "",
    )


async def _viewer(request: AnonymousRequest) -> Viewer | None:
    token = current_token(request)
    return await find_viewer(request.db, request.settings, token) if token else None


ROUTES: Routes = [
    PublicRoute("GET", "/invitation", show),
    PublicRoute("POST", "/invitation", accept),
]
