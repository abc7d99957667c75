"""`agentjobs platforms webhooks`: the webhooks that the service registers for repositories."""

from typing import Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Table
from agentjobs.cli.platforms.commands import ConnectionName, platforms
from agentjobs.cli.platforms.text import hook_document, hook_line
from agentjobs.cli.store_command import Work, store_command

_TABLE = ("repository", "webhook", "deliveries", "checked")


@platforms.command("webhooks")
@store_command
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
) -> Work:
    """List the webhooks of connected repositories, register or remove them."""
    if register and remove:
        raise typer.BadParameter("use --register or --remove, not both")
    names = repos or []

    async def work(admin: Admin) -> Table:
        from agentjobs.connections.connections import find_connection
        from agentjobs.organizations.effective_settings import load_public_url
        from agentjobs.platform_sync import hook_choices
        from agentjobs.repos.hook_rows import hooks_of_connection

        if register:
            public_url = await load_public_url(admin.db, admin.settings)
            hooks = await hook_choices.register_hooks(admin.db, org, name, names, public_url)
        elif remove:
            hooks = await hook_choices.remove_hooks(admin.db, org, name, names)
        else:
            connection = await find_connection(admin.db, org, name)
            hooks = await hooks_of_connection(admin.db, connection.id)
        hooks = [hook for hook in hooks if hook.full_name in names or not names]
        document = {"webhooks": [hook_document(hook) for hook in hooks]}
        notes = ["A running service does this within a minute."] if register or remove else []
        return Table(document, _TABLE, [hook_line(hook) for hook in hooks], notes)

    return work
