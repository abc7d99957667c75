"""`agentjobs users set-password`, `invite`, `sign-in-link` and `reset-link`.

A link is printed once, alone on stdout. Passwords are never printed.
"""

import sys
from typing import Any

from agentjobs.cli.admin import Admin
from agentjobs.cli.credential_input import prompt_secretly, read_secret
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret, to_document
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.users.commands import Email, Role, require_user, users
from agentjobs_runtime.clock import iso_utc

# More bytes than the longest password, whose limit is in characters.
_MAX_PASSWORD_BYTES = 8_192
_INVITATION = ("id", "email", "organization", "role")
_REMEDY = "It was revoked; create another one."


@users.command("set-password")
@store_command
def set_user_password(email: Email) -> Work:
    """Set a password. Reads it from standard input, or prompts for it."""
    password = _read_password(email)

    async def work(admin: Admin) -> Answer:
        from agentjobs.organizations.password_changes import set_password

        user = await require_user(admin, email)
        await set_password(admin.db, user.id, password)
        note = f"Set the password of {user.email} and ended all sessions."
        return Answer({"email": user.email, "password_set": True}, [user.email], [note])

    return work


@users.command("invite")
@store_command
async def invite_user(
    admin: Admin, email: Email, role: Role = "member", org: Org = DEFAULT_ORG
) -> Secret:
    """Invite a user to an organization. The link is printed only once."""
    from agentjobs.organizations.effective_settings import load_public_url
    from agentjobs.organizations.invitations import invite, revoke_invitation

    owner = await admin.find_organization(org)
    invitation, token = await invite(admin.db, owner.id, email, role)
    link = f"{await load_public_url(admin.db, admin.settings)}/invitation?token={token}"
    return Secret(
        {"link": link, **to_document(invitation, _INVITATION, ("expires_at",))},
        [f"Send this link to {invitation.email} only. It works once, within 7 days."],
        link,
        _REMEDY,
        lambda admin: revoke_invitation(admin.db, owner.id, invitation.id),
        "invitation",
    )


@users.command("sign-in-link")
@store_command
async def create_sign_in_link(admin: Admin, email: Email) -> Secret:
    """Print a link that signs a user in. It works once, within 10 minutes."""
    from agentjobs.organizations.sign_in_links import create_link

    user = await require_user(admin, email)
    token = await create_link(admin.db, user.id)
    note = f"This link signs in as {user.email}. It works once, within 10 minutes."
    return await _link(admin, "sign-in", token, note, {"email": user.email})


@users.command("reset-link")
@store_command
async def create_reset_link(admin: Admin, email: Email) -> Secret:
    """Print a link that sets a new password. It works once, within 24 hours."""
    from agentjobs.organizations.password_resets import create_reset_link

    user = await require_user(admin, email)
    created, token = await create_reset_link(admin.db, user.id)
    document = {"email": created.email, "expires_at": iso_utc(created.expires_at)}
    note = (
        f"Send this link to {created.email} only: it sets a new password, and ends all"
        " sessions. It works once, within 24 hours."
    )
    return await _link(admin, "password-reset", token, note, document)


async def _link(admin: Admin, path: str, token: str, note: str, document: dict[str, Any]) -> Secret:
    from agentjobs.organizations.effective_settings import load_public_url
    from agentjobs.organizations.sign_in_links import revoke_link

    link = f"{await load_public_url(admin.db, admin.settings)}/{path}?token={token}"
    return Secret(
        {"link": link, **document},
        [note],
        link,
        _REMEDY,
        lambda admin: revoke_link(admin.db, token),
        "link",
    )


def _read_password(email: str) -> str:
    password = read_secret(f"New password for {email}", _MAX_PASSWORD_BYTES)
    if password and sys.stdin.isatty():
        from agentjobs_runtime.problems import Problem

        if prompt_secretly("Repeat the password") != password:
            raise Problem("passwords_differ", "The passwords do not match.")
    return password
