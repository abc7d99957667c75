"""Settings > Members: who is in the organization, as what, and who was invited."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.invitations import invite, list_invitations, revoke_invitation
from agentjobs.organizations.memberships import list_members, remove_member, set_role
from agentjobs.organizations.sign_out import sign_member_out
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

_HERE = "/settings/members"


async def show(request: PageRequest) -> Response:
    return await _page(request)


async def send_invitation(request: PageRequest) -> Response:
    """The link is shown this once; whoever has it and the address can join."""
    email, role = request.form.text("email"), request.form.text("role")
    try:
        invitation, token = await invite(request.db, request.organization_id, email, role)
    except Problem as problem:
        return await _page(request, problem=problem, email=email, role=role)
    link = f"{request.settings.effective_public_url}/invitation?token={token}"
    return await _page(request, invited=invitation, link=link)


async def withdraw(request: PageRequest) -> Response:
    try:
        await revoke_invitation(request.db, request.organization_id, request.path_param("id"))
    except Problem as problem:
        raise Problem("not_found", problem.message) from None
    return request.redirect(_HERE, banner="The invitation is withdrawn; its link opens nothing.")


async def change_role(request: PageRequest) -> Response:
    try:
        await set_role(
            request.db,
            request.organization_id,
            request.path_param("user_id"),
            request.form.text("role"),
        )
    except Problem as problem:
        return await _page(request, problem=problem)
    return request.redirect(_HERE, banner="The role is changed.")


async def remove(request: PageRequest) -> Response:
    try:
        await remove_member(request.db, request.organization_id, request.path_param("user_id"))
    except Problem as problem:
        return await _page(request, problem=problem)
    return request.redirect(_HERE, banner="They are removed and signed out of the organization.")


async def sign_out(request: PageRequest) -> Response:
    try:
        ended = await sign_member_out(
            request.db, request.organization_id, request.path_param("user_id")
        )
    except Problem as problem:
        return await _page(request, problem=problem)
    banner = (
        "They are signed out." if ended else f"They were not signed in to {request.organization}."
    )
    return request.redirect(_HERE, banner=banner)


async def _page(request: PageRequest, problem: Problem | None = None, **values: Any) -> Response:
    shown: dict[str, Any] = {"email": "", "role": "member", "invited": None, "link": "", **values}
    return await request.render(
        "settings/members.html",
        problem=problem,
        members=await list_members(request.db, request.organization_id),
        invitations=await list_invitations(request.db, request.organization_id),
        **shown,
    )


ROUTES: Routes = [
    PageRoute("GET", _HERE, "member", show),
    PageRoute("POST", f"{_HERE}/invitations", "admin", send_invitation),
    PageRoute("POST", f"{_HERE}/invitations/{{id}}/withdraw", "admin", withdraw),
    PageRoute("POST", f"{_HERE}/{{user_id}}/role", "admin", change_role),
    PageRoute("POST", f"{_HERE}/{{user_id}}/sign-out", "admin", sign_out),
    PageRoute("POST", f"{_HERE}/{{user_id}}/remove", "admin", remove),
]
