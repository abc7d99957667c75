"""`agentjobs users`: users and their roles in organizations."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, to_document
from agentjobs.cli.store_command import store_command
from agentjobs_runtime.clock import iso_utc

if TYPE_CHECKING:
    from agentjobs.organizations.memberships import Membership
    from agentjobs.organizations.users import User

users = typer.Typer(no_args_is_help=True, help="Manage users, roles and sign-in.")

Email = Annotated[str, typer.Argument(metavar="EMAIL")]
_ROLES = "viewer|member|admin"
Role = Annotated[str, typer.Option("--role", metavar=_ROLES, help="Role in the organization.")]


@users.command("add")
@store_command
async def add_user(
    admin: Admin,
    email: Email,
    role: Role = "member",
    org: Org = DEFAULT_ORG,
    name: Annotated[str, typer.Option("--name", help="Display name.")] = "",
) -> Answer:
    """Add a user to an organization, creating the account if necessary."""
    from agentjobs.organizations import users as stored
    from agentjobs.organizations.memberships import list_memberships

    owner = await admin.find_organization(org)
    existed = await stored.find_user(admin.db, email) is not None
    user = await stored.add_user(admin.db, owner.id, email, role, name=name)
    memberships = await list_memberships(admin.db, user.id)
    notes = [f"{user.email} is a member of {org} with the role {role}."]
    if existed:
        notes.append(_warning_about_account(user))
    elif not (user.has_password or user.has_provider):
        notes.append(f"To let them sign in, run: agentjobs users sign-in-link {user.email}")
    return Answer({**_document(user, memberships), "existed": existed}, [user.email], notes)


@users.command("list")
@store_command
async def list_users(
    admin: Admin,
    org: Annotated[
        str | None, typer.Option("--org", metavar="NAME", help="Only members of this organization.")
    ] = None,
) -> Table:
    """List users and their organizations."""
    from agentjobs.organizations import users as stored
    from agentjobs.organizations.memberships import memberships_by_user

    if org is not None:
        await admin.find_organization(org)
    memberships = await memberships_by_user(admin.db)
    listed = [
        (user, memberships.get(user.id, []))
        for user in await stored.list_users(admin.db)
        if org is None
        or org in {membership.organization for membership in memberships.get(user.id, [])}
    ]
    return Table(
        {"users": [_document(*entry) for entry in listed]},
        ("email", "name", "organizations", "password", "provider", "last sign-in", "created"),
        [_cells(*entry) for entry in listed],
    )


@users.command("set-role")
@store_command
async def set_user_role(
    admin: Admin,
    email: Email,
    role: Annotated[str, typer.Argument(metavar=_ROLES)],
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Change the role of a user in an organization."""
    from agentjobs.organizations.memberships import set_role

    owner = await admin.find_organization(org)
    user = await require_user(admin, email)
    await set_role(admin.db, owner.id, user.id, role)
    document = {"email": user.email, "organization": org, "role": role}
    note = f"{user.email} is a member of {org} with the role {role}."
    return Answer(document, [user.email], [note])


@users.command("remove")
@store_command
async def remove_user(admin: Admin, email: Email, org: Org = DEFAULT_ORG) -> Answer:
    """Remove a user from an organization and end their sessions."""
    from agentjobs.organizations.memberships import remove_member

    owner = await admin.find_organization(org)
    user = await require_user(admin, email)
    await remove_member(admin.db, owner.id, user.id)
    document = {"email": user.email, "organization": org, "removed": True}
    return Answer(document, [user.email], [f"Removed {user.email} from {org}."])


async def require_user(admin: Admin, email: str) -> "User":
    from agentjobs.organizations.users import find_user
    from agentjobs_runtime.problems import Problem

    user = await find_user(admin.db, email)
    if user is None:
        reason = f"There is no user {email!r}; `agentjobs users list` lists them."
        raise Problem("user_not_found", reason)
    return user


def _warning_about_account(user: "User") -> str:
    return (
        f"{user.email} already had an account, created {iso_utc(user.created_at)}. If you do not "
        "know who created it, set a new password (agentjobs users set-password) or send a sign-in "
        "link (agentjobs users sign-in-link)."
    )


def _cells(user: "User", memberships: "list[Membership]") -> list[Any]:
    document = _document(user, memberships)
    organizations = ", ".join(
        f"{membership.organization} ({membership.role})" for membership in memberships
    )
    sign_in_methods = (user.has_password, user.has_provider)
    times = (document["last_sign_in_at"], document["created_at"])
    return [user.email, user.name or None, organizations or None, *sign_in_methods, *times]


def _document(user: "User", memberships: "list[Membership]") -> dict[str, Any]:
    roles = {membership.organization: membership.role for membership in memberships}
    fields = ("id", "email", "name", "has_password", "has_provider", "is_operator")
    return to_document(user, fields, ("created_at", "last_sign_in_at"), organizations=roles)
