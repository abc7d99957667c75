"""`agentjobs users`: users and their roles in organizations."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs.organizations.memberships import Membership
    from agentjobs.organizations.users import User

users = typer.Typer(no_args_is_help=True, help="Manage users, roles and sign-in.")

Email = Annotated[str, typer.Argument(metavar="EMAIL")]
_ROLES = "viewer|member|admin"
Role = Annotated[str, typer.Option("--role", metavar=_ROLES, help="Role in the organization.")]


@users.command("add")
def add_user(
    email: Email,
    role: Role = "member",
    org: Org = DEFAULT_ORG,
    name: Annotated[str, typer.Option("--name", help="Display name.")] = "",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Add a user to an organization, creating the account if necessary."""

    async def work(admin: Admin) -> "tuple[User, list[Membership], bool]":
        from agentjobs.organizations import users as stored
        from agentjobs.organizations.memberships import memberships_of
        from agentjobs.organizations.organizations import find_organization

        owner = await find_organization(admin.db, org)
        existed = await stored.find_user(admin.db, email) is not None
        user = await stored.add_user(admin.db, owner.id, email, role, name=name)
        return user, await memberships_of(admin.db, user.id), existed

    user, memberships, existed = with_store(data_dir, work)
    if json:
        print_json({**_document(user, memberships), "existed": existed})
        return
    print_result(user.email)
    print_note(f"{user.email} is a member of {org} with the role {role}.")
    if existed:
        _warn_about_account(user)
    elif not (user.has_password or user.has_provider):
        print_note(f"To let them sign in, run: agentjobs users sign-in-link {user.email}")


@users.command("list")
def list_users(
    org: Annotated[
        str | None, typer.Option("--org", metavar="NAME", help="Only members of this organization.")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List users and their organizations."""

    async def work(admin: Admin) -> "list[tuple[User, list[Membership]]]":
        from agentjobs.organizations import users as stored
        from agentjobs.organizations.memberships import memberships_by_user
        from agentjobs.organizations.organizations import find_organization

        if org is not None:
            await find_organization(admin.db, org)
        memberships = await memberships_by_user(admin.db)
        return [(user, memberships.get(user.id, [])) for user in await stored.list_users(admin.db)]

    listed = [
        (user, memberships)
        for user, memberships in with_store(data_dir, work)
        if org is None or org in {each.organization for each in memberships}
    ]
    if json:
        print_json({"users": [_document(*each) for each in listed]})
        return
    print_table(
        ("email", "name", "organizations", "password", "provider", "last sign-in", "created"),
        [_cells(*each) for each in listed],
    )


@users.command("set-role")
def set_user_role(
    email: Email,
    role: Annotated[str, typer.Argument(metavar=_ROLES)],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Change the role of a user in an organization."""

    async def work(admin: Admin) -> "User":
        from agentjobs.organizations.memberships import set_role
        from agentjobs.organizations.organizations import find_organization

        owner = await find_organization(admin.db, org)
        user = await require_user(admin, email)
        await set_role(admin.db, owner.id, user.id, role)
        return user

    user = with_store(data_dir, work)
    if json:
        print_json({"email": user.email, "organization": org, "role": role})
        return
    print_result(user.email)
    print_note(f"{user.email} is a member of {org} with the role {role}.")


@users.command("remove")
def remove_user(
    email: Email, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove a user from an organization and end their sessions."""

    async def work(admin: Admin) -> "User":
        from agentjobs.organizations.memberships import remove_member
        from agentjobs.organizations.organizations import find_organization

        owner = await find_organization(admin.db, org)
        user = await require_user(admin, email)
        await remove_member(admin.db, owner.id, user.id)
        return user

    user = with_store(data_dir, work)
    if json:
        print_json({"email": user.email, "organization": org, "removed": True})
        return
    print_result(user.email)
    print_note(f"Removed {user.email} from {org}.")


async def require_user(admin: Admin, email: str) -> "User":
    from agentjobs.organizations.users import find_user
    from agentjobs.problems import Problem

    user = await find_user(admin.db, email)
    if user is None:
        reason = f"There is no user {email!r}; `agentjobs users list` lists them."
        raise Problem("user_not_found", reason)
    return user


def _warn_about_account(user: "User") -> None:
    from agentjobs.clock import iso_utc

    print_note(
        f"{user.email} already had an account, created {iso_utc(user.created_at)}. If you do not "
        "know who created it, set a new password (agentjobs users set-password) or send a sign-in "
        "link (agentjobs users sign-in-link)."
    )


def _cells(user: "User", memberships: "list[Membership]") -> list[Any]:
    document = _document(user, memberships)
    organizations = ", ".join(f"{each.organization} ({each.role})" for each in memberships)
    sign_in_methods = (user.has_password, user.has_provider)
    times = (document["last_sign_in_at"], document["created_at"])
    return [user.email, user.name or None, organizations or None, *sign_in_methods, *times]


def _document(user: "User", memberships: "list[Membership]") -> dict[str, Any]:
    from agentjobs.clock import iso_utc, iso_utc_or_none

    return {
        "id": user.id,
        "email": user.email,
        "name": user.name,
        "organizations": {each.organization: each.role for each in memberships},
        "has_password": user.has_password,
        "has_provider": user.has_provider,
        "is_operator": user.is_operator,
        "created_at": iso_utc(user.created_at),
        "last_sign_in_at": iso_utc_or_none(user.last_sign_in_at),
    }
