"""One's own account: name, password, where one is signed in, and in which organizations."""

from starlette.responses import Response

from agentjobs.organizations.memberships import memberships_of
from agentjobs.organizations.password_changes import change_password
from agentjobs.organizations.sessions import list_sessions, start_session, switch_organization
from agentjobs.organizations.signing_out import end_session_by_id, end_sessions
from agentjobs.organizations.users import get_user, rename_user
from agentjobs.problems import Problem
from agentjobs.web.dashboard.origins import safe_next
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.sign_in import current_token, signed_in, signed_out


async def show(visit: Visit, problem: Problem | None = None, name: str | None = None) -> Response:
    """`name` is one that was typed and refused."""
    viewer = visit.viewer
    user = await get_user(visit.db, viewer.user_id)
    return await visit.page(
        "account.html",
        problem=problem,
        user=user,
        name=user.name if name is None else name,
        sessions=await list_sessions(visit.db, viewer.user_id),
        memberships=await memberships_of(visit.db, viewer.user_id),
    )


async def rename(visit: Visit) -> Response:
    name = visit.form.text("name")
    try:
        await rename_user(visit.db, visit.viewer.user_id, name)
    except Problem as problem:
        return await show(visit, problem, name)
    return visit.redirect("/account", said="Your name is changed.")


async def set_new_password(visit: Visit) -> Response:
    """Whoever else is signed in with the old one is out; this browser goes on in a new session."""
    form, viewer = visit.form, visit.viewer
    try:
        if form.raw("new") != form.raw("again"):
            raise Problem("weak_password", "The new password was not typed the same way twice.")
        await change_password(
            visit.db, viewer.user_id, form.raw("current") or None, form.raw("new")
        )
    except Problem as problem:
        return await show(visit, problem)
    token = await start_session(
        visit.db,
        visit.settings,
        viewer.user_id,
        visit.origin,
        organization_id=viewer.organization_id,
    )
    return signed_in(visit, token, "/account", said="Your password is changed.")


async def end_one(visit: Visit) -> Response:
    hashed = await end_session_by_id(visit.db, visit.viewer.user_id, visit.path("id"))
    if hashed == visit.viewer.session:
        return signed_out(visit, "You are signed out.")
    return visit.redirect("/account", said="You are signed out there.")


async def end_all(visit: Visit) -> Response:
    await end_sessions(visit.db, visit.viewer.user_id)
    return signed_out(visit, "You are signed out everywhere.")


async def end_others(visit: Visit) -> Response:
    ended = await end_sessions(visit.db, visit.viewer.user_id, but=visit.viewer.session)
    words = "nowhere else before, either" if not ended else "nowhere else any more"
    return visit.redirect("/account", said=f"You are signed in {words}.")


async def switch(visit: Visit) -> Response:
    token = current_token(visit) or ""
    name = visit.form.text("organization")
    try:
        await switch_organization(visit.db, token, visit.viewer.user_id, name)
    except Problem as problem:
        return await show(visit, problem)
    place = safe_next(visit.form.text("next") or "/")
    return visit.redirect(place, said=f"You are in {name} now.")


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/account", "viewer", show),
    Place("POST", "/account/name", "viewer", rename),
    Place("POST", "/account/password", "viewer", set_new_password),
    Place("POST", "/account/sessions/end-others", "viewer", end_others),
    Place("POST", "/account/sessions/end-all", "viewer", end_all),
    Place("POST", "/account/sessions/{id}/end", "viewer", end_one),
    Place("POST", "/account/organization", "viewer", switch),
]
