"""`agentjobs users operator`: accounts that see and manage the whole service on the dashboard."""

from typing import TYPE_CHECKING

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.output import Answer, Table
from agentjobs.cli.store_command import store_command
from agentjobs.cli.users.commands import Email, require_user, users

if TYPE_CHECKING:
    from agentjobs.organizations.users import User

operator = typer.Typer(no_args_is_help=True, help="Manage operators of the service.")
users.add_typer(operator, name="operator")


@operator.command("add")
@store_command
async def add_operator(admin: Admin, email: Email) -> Answer:
    """Let an account see and manage the whole service on the dashboard."""
    from agentjobs.organizations.operators import add_operator

    user = await require_user(admin, email)
    changed = await add_operator(admin.db, user)
    note = "is an operator now." if changed else "was an operator already."
    return _answer(user, note, is_operator=True, changed=changed)


@operator.command("remove")
@store_command
async def remove_operator(admin: Admin, email: Email) -> Answer:
    """Remove an operator. The account stays a member of its organizations."""
    from agentjobs.organizations.operators import remove_operator

    user = await require_user(admin, email)
    changed = await remove_operator(admin.db, user)
    note = "is no operator any more." if changed else "was no operator."
    return _answer(user, note, is_operator=False, changed=changed)


@operator.command("list")
@store_command
async def list_operators(admin: Admin) -> Table:
    """List operators."""
    from agentjobs.organizations.operators import list_operators

    users = await list_operators(admin.db)
    documents = [{"email": user.email, "name": user.name} for user in users]
    rows = [(user.email, user.name or None) for user in users]
    return Table({"operators": documents}, ("email", "name"), rows)


def _answer(user: "User", note: str, *, is_operator: bool, changed: bool) -> Answer:
    document = {"email": user.email, "is_operator": is_operator, "changed": changed}
    return Answer(document, [user.email], [f"{user.email} {note}"])
