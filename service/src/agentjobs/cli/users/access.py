"""`agentjobs users set-password`, `invite`, `sign-in-link` and `reset-link`.

A link is printed once, alone on stdout. Passwords are never printed.
"""

import sys
from typing import TYPE_CHECKING, Any

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.credential_input import prompt_secretly, read_secret
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import Answer, print_answer, print_once
from agentjobs.cli.users.commands import Email, Role, require_user, users

if TYPE_CHECKING:
    from agentjobs.organizations.invitations import Invitation
    from agentjobs.organizations.password_resets import ResetLink
    from agentjobs.organizations.users import User

# More bytes than the longest password, whose limit is in characters.
_MAX_PASSWORD_BYTES = 8_192


@users.command("set-password")
def set_user_password(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Set a password. Reads it from standard input, or prompts for it."""
    password = _read_password(email)

    async def work(admin: Admin) -> "User":
        from agentjobs.organizations.password_changes import set_password

        user = await require_user(admin, email)
        await set_password(admin.db, user.id, password)
        return user

    user = with_store(data_dir, work)
    note = f"Set the password of {user.email} and ended all sessions."
    document = {"email": user.email, "password_set": True}
    print_answer(Answer(document, [user.email], [note]), json=json)


@users.command("invite")
def invite_user(
    email: Email,
    role: Role = "member",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Invite a user to an organization. The link is printed only once."""

    async def work(admin: Admin) -> "tuple[Invitation, str, str]":
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.organizations.invitations import invite

        owner = await admin.find_organization(org)
        invitation, token = await invite(admin.db, owner.id, email, role)
        return invitation, token, await load_public_url(admin.db, admin.settings)

    invitation, token, public_url = with_store(data_dir, work)
    link = f"{public_url}/invitation?token={token}"
    document = {"link": link, **_invitation_document(invitation)}
    note = f"Send this link to {invitation.email} only. It works once, within 7 days."
    if reason := print_once(document, note, link, json=json):
        from agentjobs.organizations.invitations import revoke_invitation

        owner_id = invitation.organization_id
        with_store(data_dir, lambda admin: revoke_invitation(admin.db, owner_id, invitation.id))
        raise _not_printed("invitation", reason)


@users.command("sign-in-link")
def create_sign_in_link(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Print a link that signs a user in. It works once, within 10 minutes."""

    async def work(admin: Admin) -> "tuple[User, str, str]":
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.organizations.sign_in_links import create_link

        user = await require_user(admin, email)
        token = await create_link(admin.db, user.id)
        return user, token, await load_public_url(admin.db, admin.settings)

    user, token, public_url = with_store(data_dir, work)
    link = f"{public_url}/sign-in?token={token}"
    document = {"link": link, "email": user.email}
    note = f"This link signs in as {user.email}. It works once, within 10 minutes."
    if reason := print_once(document, note, link, json=json):
        _revoke_link(token, data_dir, reason)


@users.command("reset-link")
def create_reset_link(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Print a link that sets a new password. It works once, within 24 hours."""

    async def work(admin: Admin) -> "tuple[ResetLink, str, str]":
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.organizations.password_resets import create_reset_link

        user = await require_user(admin, email)
        link, token = await create_reset_link(admin.db, user.id)
        return link, token, await load_public_url(admin.db, admin.settings)

    from agentjobs_runtime.clock import iso_utc

    created, token, public_url = with_store(data_dir, work)
    link = f"{public_url}/password-reset?token={token}"
    expires_at = iso_utc(created.expires_at)
    document = {"link": link, "email": created.email, "expires_at": expires_at}
    note = (
        f"Send this link to {created.email} only: it sets a new password, and ends all"
        " sessions. It works once, within 24 hours."
    )
    if reason := print_once(document, note, link, json=json):
        _revoke_link(token, data_dir, reason)


def _revoke_link(token: str, data_dir: DataDir, reason: str) -> None:
    from agentjobs.organizations.sign_in_links import revoke_link

    with_store(data_dir, lambda admin: revoke_link(admin.db, token))
    raise _not_printed("link", reason)


def _not_printed(kind: str, reason: str) -> Exception:
    from agentjobs_runtime.problems import Problem

    return Problem(
        f"{kind}_not_shown",
        f"The {kind} could not be printed: {reason}. It was revoked; create another one.",
    )


def _read_password(email: str) -> str:
    password = read_secret(f"New password for {email}", _MAX_PASSWORD_BYTES)
    if password and sys.stdin.isatty():
        from agentjobs_runtime.problems import Problem

        if prompt_secretly("Repeat the password") != password:
            raise Problem("passwords_differ", "The passwords do not match.")
    return password


def _invitation_document(invitation: "Invitation") -> dict[str, Any]:
    from agentjobs_runtime.clock import iso_utc

    return {
        "id": invitation.id,
        "email": invitation.email,
        "organization": invitation.organization,
        "role": invitation.role,
        "expires_at": iso_utc(invitation.expires_at),
    }
