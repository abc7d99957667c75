"""Somebody was invited: they join as who they are here already, or as somebody new."""

from starlette.responses import Response

from agentjobs.organizations.invitations import (
    accept_as_new,
    accept_invitation,
    find_invitation,
)
from agentjobs.organizations.sessions import Viewer, find_viewer, start_session
from agentjobs.organizations.users import get_user
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Guest
from agentjobs.web.dashboard.sign_in import current_token, signed_in


async def show(guest: Guest) -> Response:
    return await _page(guest, guest.query("token"))


async def accept(guest: Guest) -> Response:
    """Nobody can be made to join: who is signed in joins only as the address that was invited."""
    token, form = guest.form.text("token"), guest.form
    try:
        invitation = await find_invitation(guest.db, token)
        viewer = await _viewer(guest)
        if viewer is not None and viewer.email == invitation.email:
            user = await get_user(guest.db, viewer.user_id)
            await accept_invitation(guest.db, token, user)
        elif invitation.has_account:
            raise Problem(
                "other_invitation",
                f"Sign in as {invitation.email} first, then open the invitation's link again.",
            )
        else:
            if form.raw("password") != form.raw("again"):
                raise Problem("weak_password", "The password was not typed the same way twice.")
            user = await accept_as_new(
                guest.db, token, name=form.text("name"), password=form.raw("password")
            )
    except Problem as problem:
        return await _page(guest, token, problem)
    session = await start_session(
        guest.db,
        guest.settings,
        user.id,
        guest.origin,
        organization_id=invitation.organization_id,
        replacing=current_token(guest),
        how="invitation",
    )
    return signed_in(guest, session, "/", said=f"Welcome to {invitation.organization}.")


async def _page(guest: Guest, token: str, problem: Problem | None = None) -> Response:
    invitation = None
    try:
        invitation = await find_invitation(guest.db, token)
    except Problem as not_valid:
        problem = not_valid
    return await guest.page(
        "invitation.html",
        problem=problem,
        token=token,
        invitation=invitation,
        name=guest.form.text("name"),
        signed_in_as=await _viewer(guest),
        provider=guest.settings.oidc_name if guest.context.openid else "",
    )


async def _viewer(guest: Guest) -> Viewer | None:
    token = current_token(guest)
    return await find_viewer(guest.db, guest.settings, token) if token else None


PLACES: list[Place | OpenPlace] = [
    OpenPlace("GET", "/invitation", show),
    OpenPlace("POST", "/invitation", accept),
]
