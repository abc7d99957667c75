"""Settings > Members: who is in the organization, as what, and who was invited."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.invitations import invite, list_invitations, revoke_invitation
from agentjobs.organizations.memberships import list_members, remove_member, set_role
from agentjobs.organizations.signing_out import sign_member_out
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit

_HERE = "/settings/members"


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def send_invitation(visit: Visit) -> Response:
    """The link is shown this once; whoever has it and the address can join."""
    email, role = visit.form.text("email"), visit.form.text("role")
    try:
        invitation, token = await invite(visit.db, visit.organization_id, email, role)
    except Problem as problem:
        return await _page(visit, problem=problem, email=email, role=role)
    link = f"{visit.settings.effective_public_url}/invitation?token={token}"
    return await _page(visit, invited=invitation, link=link)


async def withdraw(visit: Visit) -> Response:
    try:
        await revoke_invitation(visit.db, visit.organization_id, visit.path("id"))
    except Problem as problem:
        raise Problem("not_found", problem.message) from None
    return visit.redirect(_HERE, said="The invitation is withdrawn; its link opens nothing.")


async def change_role(visit: Visit) -> Response:
    try:
        await set_role(
            visit.db, visit.organization_id, visit.path("user_id"), visit.form.text("role")
        )
    except Problem as problem:
        return await _page(visit, problem=problem)
    return visit.redirect(_HERE, said="The role is changed.")


async def remove(visit: Visit) -> Response:
    try:
        await remove_member(visit.db, visit.organization_id, visit.path("user_id"))
    except Problem as problem:
        return await _page(visit, problem=problem)
    return visit.redirect(_HERE, said="They are removed and signed out of the organization.")


async def sign_out(visit: Visit) -> Response:
    try:
        ended = await sign_member_out(visit.db, visit.organization_id, visit.path("user_id"))
    except Problem as problem:
        return await _page(visit, problem=problem)
    said = "They are signed out." if ended else f"They were not signed in to {visit.organization}."
    return visit.redirect(_HERE, said=said)


async def _page(visit: Visit, problem: Problem | None = None, **values: Any) -> Response:
    shown: dict[str, Any] = {"email": "", "role": "member", "invited": None, "link": "", **values}
    return await visit.page(
        "settings/members.html",
        problem=problem,
        members=await list_members(visit.db, visit.organization_id),
        invitations=await list_invitations(visit.db, visit.organization_id),
        **shown,
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", _HERE, "member", show),
    Place("POST", f"{_HERE}/invitations", "admin", send_invitation),
    Place("POST", f"{_HERE}/invitations/{{id}}/withdraw", "admin", withdraw),
    Place("POST", f"{_HERE}/{{user_id}}/role", "admin", change_role),
    Place("POST", f"{_HERE}/{{user_id}}/sign-out", "admin", sign_out),
    Place("POST", f"{_HERE}/{{user_id}}/remove", "admin", remove),
]
