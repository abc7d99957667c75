"""`agentjobs users operator`: accounts that see and manage the whole service on the dashboard."""

from typing import TYPE_CHECKING

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result, print_table
from agentjobs.cli.users.commands import Email, require_user, users

if TYPE_CHECKING:
    from agentjobs.organizations.users import User

operator = typer.Typer(no_args_is_help=True, help="Manage operators of the service.")
users.add_typer(operator, name="operator")


@operator.command("add")
def add_operator(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Let an account see and manage the whole service on the dashboard."""

    async def work(admin: Admin) -> "tuple[User, bool]":
        from agentjobs.organizations.operators import add_operator

        user = await require_user(admin, email)
        return user, await add_operator(admin.db, user)

    user, changed = with_store(data_dir, work)
    note = "is an operator now." if changed else "was an operator already."
    _answer(user, note, json=json, is_operator=True, changed=changed)


@operator.command("remove")
def remove_operator(email: Email, data_dir: DataDir = None, json: Json = False) -> None:
    """Remove an operator. The account stays a member of its organizations."""

    async def work(admin: Admin) -> "tuple[User, bool]":
        from agentjobs.organizations.operators import remove_operator

        user = await require_user(admin, email)
        return user, await remove_operator(admin.db, user)

    user, changed = with_store(data_dir, work)
    note = "is no operator any more." if changed else "was no operator."
    _answer(user, note, json=json, is_operator=False, changed=changed)


@operator.command("list")
def list_operators(data_dir: DataDir = None, json: Json = False) -> None:
    """List operators."""

    async def work(admin: Admin) -> "list[User]":
        from agentjobs.organizations.operators import list_operators

        return await list_operators(admin.db)

    listed = with_store(data_dir, work)
    if json:
        print_json({"operators": [{"email": each.email, "name": each.name} for each in listed]})
        return
    print_table(("email", "name"), [(each.email, each.name or None) for each in listed])


def _answer(user: "User", note: str, *, json: bool, is_operator: bool, changed: bool) -> None:
    if json:
        print_json({"email": user.email, "is_operator": is_operator, "changed": changed})
        return
    print_result(user.email)
    print_note(f"{user.email} {note}")
