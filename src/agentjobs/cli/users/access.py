"""Verbs of `agentjobs users` that let somebody in: a password, an invitation, a sign-in link.

A link is printed once, alone on stdout. A password comes in, and never out.
"""

import sys
from typing import TYPE_CHECKING, Any

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, remark, why_not_shown
from agentjobs.cli.users.commands import Email, Role, find, users

if TYPE_CHECKING:
    from agentjobs.organizations.invitations import Invitation
    from agentjobs.organizations.users import User

# Passwords are counted in characters; none takes more bytes than this.
_MOST_PASSWORD_BYTES = 8_192


@users.command("set-password")
def set_user_password(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Set a password, read from standard input or asked for without an echo."""
    password = _read_password(email)

    async def work(admin: Admin) -> "User":
        from agentjobs.organizations.password_changes import set_password

        user = await find(admin, email)
        await set_password(admin.db, user.id, password)
        return user

    user = with_store(data_dir, work)
    if json:
        answer_json({"email": user.email, "password_set": True})
        return
    answer(user.email)
    remark(f"{user.email} has a new password, and is signed out everywhere.")


@users.command("invite")
def invite_user(
    email: Email,
    role: Role = "member",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Invite somebody to an organization, and print the link, this once."""

    async def work(admin: Admin) -> "tuple[Invitation, str, str]":
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.organizations.invitations import invite
        from agentjobs.organizations.organizations import find_organization

        owner = await find_organization(admin.db, org)
        invitation, token = await invite(admin.db, owner.id, email, role)
        return invitation, token, await load_public_url(admin.db, admin.settings)

    invitation, token, public_url = with_store(data_dir, work)
    link = f"{public_url}/invitation?token={token}"

    def show() -> None:
        if json:
            answer_json({"link": link, **_invitation_document(invitation)})
            return
        remark(f"Give this link to {invitation.email} alone: it is valid for 7 days, once.")
        answer(link)

    async def take_back(admin: Admin) -> None:
        from agentjobs.organizations.invitations import revoke_invitation

        await revoke_invitation(admin.db, invitation.organization_id, invitation.id)

    if reason := why_not_shown(show):
        with_store(data_dir, take_back)
        raise _not_shown("invitation", reason)


@users.command("sign-in-link")
def make_sign_in_link(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Print a link that signs somebody in, once, within 10 minutes."""

    async def work(admin: Admin) -> "tuple[User, str, str]":
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.organizations.sign_in_links import create_link

        user = await find(admin, email)
        token = await create_link(admin.db, user.id)
        return user, token, await load_public_url(admin.db, admin.settings)

    user, token, public_url = with_store(data_dir, work)
    link = f"{public_url}/sign-in?token={token}"

    def show() -> None:
        if json:
            answer_json({"link": link, "email": user.email})
            return
        remark(f"This link signs in as {user.email}, once, within 10 minutes.")
        answer(link)

    async def take_back(admin: Admin) -> None:
        from agentjobs.organizations.sign_in_links import revoke_link

        await revoke_link(admin.db, token)

    if reason := why_not_shown(show):
        with_store(data_dir, take_back)
        raise _not_shown("link", reason)


def _not_shown(what: str, reason: str) -> Exception:
    from agentjobs.problems import Problem

    return Problem(
        f"{what}_not_shown",
        f"The {what} could not be written: {reason}. Nobody would know it, so it is taken back; "
        "make another.",
    )


def _read_password(email: str) -> str:
    """Never an argument: arguments are seen by every user of the machine, and kept by shells."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return _ask_twice(email)
    data = sys.stdin.buffer.read(_MOST_PASSWORD_BYTES)
    return data.decode().removesuffix("\n").removesuffix("\r")


def _ask_twice(email: str) -> str:
    import getpass

    from agentjobs.problems import Problem

    try:
        password = getpass.getpass(f"New password of {email}: ")
        if getpass.getpass("The same again: ") != password:
            raise Problem("passwords_differ", "These were two passwords; type the same one twice.")
    except EOFError:
        return ""
    return password


def _invitation_document(invitation: "Invitation") -> dict[str, Any]:
    from agentjobs.clock import iso_utc

    return {
        "id": invitation.id,
        "email": invitation.email,
        "organization": invitation.organization,
        "role": invitation.role,
        "expires_at": iso_utc(invitation.expires_at),
    }
