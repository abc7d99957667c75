"""`agentjobs platforms webhooks`: the webhooks that the service registers for repositories."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_table
from agentjobs.cli.platforms.commands import ConnectionName, platforms
from agentjobs.cli.platforms.text import hook_document, hook_line

if TYPE_CHECKING:
    from agentjobs.repos.hook_rows import HookRow

_TABLE = ("repository", "webhook", "deliveries", "checked")


@platforms.command("webhooks")
def webhooks(
    name: ConnectionName,
    repos: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OWNER/NAME]...", help="Default: all that are connected."),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Register webhooks for the repositories.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the webhooks that were registered.")
    ] = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List the webhooks of connected repositories, register or remove them."""
    if register and remove:
        raise typer.BadParameter("use --register or --remove, not both")
    names = repos or []

    async def work(admin: Admin) -> "list[HookRow]":
        from agentjobs.connections.connections import find_connection
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.platform_sync import hook_choices
        from agentjobs.repos.hook_rows import hooks_of_connection

        if register:
            public_url = await load_public_url(admin.db, admin.settings)
            return await hook_choices.register_hooks(admin.db, org, name, names, public_url)
        if remove:
            return await hook_choices.remove_hooks(admin.db, org, name, names)
        connection = await find_connection(admin.db, org, name)
        return await hooks_of_connection(admin.db, connection.id)

    hooks = [hook for hook in with_store(data_dir, work) if hook.full_name in names or not names]
    if json:
        print_json({"webhooks": [hook_document(hook) for hook in hooks]})
        return
    rows: list[list[Any]] = [hook_line(hook) for hook in hooks]
    print_table(_TABLE, rows)
    if register or remove:
        print_note("A running service does this within a minute.")
