"""Settings > Members: members, roles and invitations."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.invitations import invite, list_invitations, revoke_invitation
from agentjobs.organizations.memberships import Member, list_members, remove_member, set_role
from agentjobs.organizations.password_resets import create_reset_link
from agentjobs.organizations.sign_out import sign_member_out
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PATH = "/settings/members"
# More would make a page of megabytes.
_MAX_SHOWN = 100


async def send_invitation(request: PageRequest) -> Response:
    """The link is shown only in this response."""
    email, role = request.form.text("email"), request.form.text("role")
    invitation, token = await invite(request.db, request.organization_id, email, role)
    link = f"{request.settings.effective_public_url}/invitation?token={token}"
    return await show(request, invited=invitation, link=link)


async def revoke(request: PageRequest) -> Response:
    try:
        await revoke_invitation(request.db, request.organization_id, request.path_param("id"))
    except Problem as problem:
        raise Problem("not_found", problem.message) from None
    return request.redirect(_PATH, banner="The invitation was revoked. Its link no longer works.")


async def change_role(request: PageRequest) -> Response:
    user_id, role = request.path_param("user_id"), request.form.text("role")
    await set_role(request.db, request.organization_id, user_id, role)
    return request.redirect(_PATH, banner="The role was changed.")


async def reset_password(request: PageRequest) -> Response:
    """The link is shown only in this response."""
    reset, token = await create_reset_link(
        request.db,
        request.path_param("user_id"),
        organization_id=request.organization_id,
        is_by_operator=request.is_operator,
        session=request.viewer.session,
    )
    link = f"{request.settings.effective_public_url}/password-reset?token={token}"
    return await show(request, reset=reset, link=link)


async def remove(request: PageRequest) -> Response:
    await remove_member(request.db, request.organization_id, request.path_param("user_id"))
    return request.redirect(
        _PATH, banner="The member was removed and signed out of the organization."
    )


async def sign_out(request: PageRequest) -> Response:
    user_id = request.path_param("user_id")
    ended = await sign_member_out(request.db, request.organization_id, user_id)
    banner = (
        "The member was signed out."
        if ended
        else f"The member was not signed in to {request.organization}."
    )
    return request.redirect(_PATH, banner=banner)


async def show(request: PageRequest, problem: Problem | None = None, **values: Any) -> Response:
    # An invitation with an error keeps its form open.
    is_inviting = problem is not None and "email" in request.form
    shown: dict[str, Any] = {"invited": None, "reset": None, "link": "", **values}
    members = await list_members(request.db, request.organization_id)
    query = request.query_param("q")
    matching = [member for member in members if _matches(member, query)]
    return await request.render(
        "settings/members.html",
        problem=problem,
        is_inviting=is_inviting,
        email=request.form.text("email") if is_inviting else "",
        role=request.form.text("role") if is_inviting else "member",
        members=matching[:_MAX_SHOWN],
        matching=len(matching),
        query=query,
        is_searchable=len(members) > _MAX_SHOWN,
        invitations=await list_invitations(request.db, request.organization_id),
        **shown,
    )


def _matches(member: Member, query: str) -> bool:
    return query.casefold() in f"{member.name} {member.email}".casefold()


ROUTES: Routes = [
    PageRoute("GET", _PATH, "member", show),
    PageRoute("POST", f"{_PATH}/invitations", "admin", send_invitation, problem_page=show),
    PageRoute("POST", f"{_PATH}/invitations/{{id}}/withdraw", "admin", revoke),
    PageRoute("POST", f"{_PATH}/{{user_id}}/role", "admin", change_role, problem_page=show),
    PageRoute(
        "POST", f"{_PATH}/{{user_id}}/reset-password", "admin", reset_password, problem_page=show
    ),
    PageRoute("POST", f"{_PATH}/{{user_id}}/sign-out", "admin", sign_out, problem_page=show),
    PageRoute("POST", f"{_PATH}/{{user_id}}/remove", "admin", remove, problem_page=show),
]
