"""One's own account: name, password, where one is signed in, and in which organizations."""

from starlette.responses import Response

from agentjobs.organizations.memberships import memberships_of
from agentjobs.organizations.password_changes import change_password
from agentjobs.organizations.sessions import list_sessions, start_session, switch_organization
from agentjobs.organizations.signing_out import end_session_by_id, end_sessions
from agentjobs.organizations.users import get_user, rename_user
from agentjobs.problems import Problem
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.sign_in import current_token, signed_in, signed_out


async def show(
    request: PageRequest, problem: Problem | None = None, name: str | None = None
) -> Response:
    """`name` is one that was typed and refused."""
    viewer = request.viewer
    user = await get_user(request.db, viewer.user_id)
    return await request.render(
        "account.html",
        problem=problem,
        user=user,
        name=user.name if name is None else name,
        sessions=await list_sessions(request.db, viewer.user_id),
        memberships=await memberships_of(request.db, viewer.user_id),
    )


async def rename(request: PageRequest) -> Response:
    name = request.form.text("name")
    try:
        await rename_user(request.db, request.viewer.user_id, name)
    except Problem as problem:
        return await show(request, problem, name)
    return request.redirect("/account", banner="Your name is changed.")


async def set_new_password(request: PageRequest) -> Response:
    """Whoever else is signed in with the old one is out; this browser goes on in a new session."""
    form, viewer = request.form, request.viewer
    try:
        if form.raw("new") != form.raw("again"):
            raise Problem("weak_password", "The new password was not typed the same way twice.")
        await change_password(
            request.db, viewer.user_id, form.raw("current") or None, form.raw("new")
        )
    except Problem as problem:
        return await show(request, problem)
    token = await start_session(
        request.db,
        request.settings,
        viewer.user_id,
        request.origin,
        organization_id=viewer.organization_id,
    )
    return signed_in(request, token, "/account", banner="Your password is changed.")


async def end_one(request: PageRequest) -> Response:
    hashed = await end_session_by_id(request.db, request.viewer.user_id, request.path_param("id"))
    if hashed == request.viewer.session:
        return signed_out(request, "You are signed out.")
    return request.redirect("/account", banner="You are signed out there.")


async def end_all(request: PageRequest) -> Response:
    await end_sessions(request.db, request.viewer.user_id)
    return signed_out(request, "You are signed out everywhere.")


async def end_others(request: PageRequest) -> Response:
    ended = await end_sessions(request.db, request.viewer.user_id, but=request.viewer.session)
    words = "nowhere else before, either" if not ended else "nowhere else any more"
    return request.redirect("/account", banner=f"You are signed in {words}.")


async def switch(request: PageRequest) -> Response:
    token = current_token(request) or ""
    name = request.form.text("organization")
    try:
        await switch_organization(request.db, token, request.viewer.user_id, name)
    except Problem as problem:
        return await show(request, problem)
    place = safe_next(request.form.text("next") or "/")
    return request.redirect(place, banner=f"You are in {name} now.")


ROUTES: Routes = [
    PageRoute("GET", "/account", "viewer", show),
    PageRoute("POST", "/account/name", "viewer", rename),
    PageRoute("POST", "/account/password", "viewer", set_new_password),
    PageRoute("POST", "/account/sessions/end-others", "viewer", end_others),
    PageRoute("POST", "/account/sessions/end-all", "viewer", end_all),
    PageRoute("POST", "/account/sessions/{id}/end", "viewer", end_one),
    PageRoute("POST", "/account/organization", "viewer", switch),
]
