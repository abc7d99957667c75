"""/account: the viewer's name, password, sessions and organizations."""

from starlette.responses import Response

from agentjobs.organizations.memberships import list_memberships
from agentjobs.organizations.password_changes import change_password
from agentjobs.organizations.sessions import list_sessions, start_session, switch_organization
from agentjobs.organizations.sign_out import end_session_by_id, end_sessions
from agentjobs.organizations.users import get_user, rename_user
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.sign_in import (
    current_token,
    end_session_response,
    start_session_response,
)
from agentjobs_runtime.problems import Problem


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    viewer = request.viewer
    user = await get_user(request.db, viewer.user_id)
    return await request.render(
        "account.html",
        problem=problem,
        user=user,
        # A submitted name that was invalid is kept.
        name=request.form.text("name") if "name" in request.form else user.name,
        sessions=await list_sessions(request.db, viewer.user_id),
        memberships=await list_memberships(request.db, viewer.user_id),
    )


async def rename(request: PageRequest) -> Response:
    await rename_user(request.db, request.viewer.user_id, request.form.text("name"))
    return request.redirect("/account", banner="Your name was changed.")


async def change_own_password(request: PageRequest) -> Response:
    """Ends all other sessions; this browser gets a new one."""
    form, viewer = request.form, request.viewer
    if form.raw("new") != form.raw("again"):
        raise Problem("weak_password", "The two new passwords do not match.")
    await change_password(request.db, viewer.user_id, form.raw("current") or None, form.raw("new"))
    token = await start_session(
        request.db,
        request.settings,
        viewer.user_id,
        request.origin,
        organization_id=viewer.organization_id,
    )
    return start_session_response(request, token, "/account", banner="Your password was changed.")


async def end_session(request: PageRequest) -> Response:
    hashed = await end_session_by_id(request.db, request.viewer.user_id, request.path_param("id"))
    if hashed == request.viewer.session:
        return end_session_response(request, "You have signed out.")
    return request.redirect("/account", banner="The session was ended.")


async def end_all_sessions(request: PageRequest) -> Response:
    await end_sessions(request.db, request.viewer.user_id)
    return end_session_response(request, "You have signed out everywhere.")


async def end_other_sessions(request: PageRequest) -> Response:
    ended = await end_sessions(request.db, request.viewer.user_id, keep=request.viewer.session)
    banner = "All other sessions were ended." if ended else "There were no other sessions."
    return request.redirect("/account", banner=banner)


async def choose_organization(request: PageRequest) -> Response:
    """The choices alone for the menu in the header."""
    memberships = await list_memberships(request.db, request.viewer.user_id)
    if request.http.headers.get("x-part"):
        html = await request.fragment("organization_choices.html", memberships=memberships)
        return request.part(html)
    return await request.render("account_organizations.html", memberships=memberships)


async def switch(request: PageRequest) -> Response:
    token = current_token(request) or ""
    name = request.form.text("organization")
    await switch_organization(request.db, token, request.viewer.user_id, name)
    path = safe_next(request.form.text("next") or "/")
    return request.redirect(path, banner=f"Switched to {name}.")


ROUTES: Routes = [
    PageRoute("GET", "/account", "viewer", show),
    PageRoute("GET", "/account/organizations", "viewer", choose_organization),
    PageRoute("POST", "/account/name", "viewer", rename, problem_page=show),
    PageRoute("POST", "/account/password", "viewer", change_own_password, problem_page=show),
    PageRoute("POST", "/account/sessions/end-others", "viewer", end_other_sessions),
    PageRoute("POST", "/account/sessions/end-all", "viewer", end_all_sessions),
    PageRoute("POST", "/account/sessions/{id}/end", "viewer", end_session),
    PageRoute("POST", "/account/organization", "viewer", switch, problem_page=show),
]
