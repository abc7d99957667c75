"""`agentjobs orgs export` and `delete`: all data of an organization."""

from pathlib import Path
from typing import Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.confirmation import confirm_name
from agentjobs.cli.orgs.commands import Name, orgs
from agentjobs.cli.output import Answer
from agentjobs.cli.store_command import Work, store_command


@orgs.command("export")
@store_command
async def export_org(
    admin: Admin,
    name: Name,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="New zip file (default: NAME-export.zip)."),
    ] = None,
) -> Answer:
    """Write all data of an organization into a zip file. The service can keep running."""
    from agentjobs.cli.orgs.export import export_organization

    target = (output or Path(f"{name}-export.zip")).absolute()
    exported = await export_organization(admin.db, admin.settings, name, target)
    document = {"path": str(target), "tables": exported.tables, "secrets": "names only"}
    note = (
        f"{sum(exported.tables.values())} rows and {len(exported.repositories)} repositories of"
        f" {name}; of secrets, only the names."
    )
    return Answer(document, [str(target)], [note])


@orgs.command("delete")
@store_command
def delete_org(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Cancel jobs that run.")] = False,
) -> Work:
    """Delete an organization with everything that belongs to it. This cannot be undone."""
    if not yes:
        contents = "jobs, repositories, pull requests, keys and users"
        confirm_name(name, "organization", f"deletes all data of {name}: {contents}")

    async def work(admin: Admin) -> Answer:
        from agentjobs.cli.orgs.deletion import delete_organization

        deleted = await delete_organization(admin.db, admin.settings, name, force=force)
        note = f"Deleted {sum(deleted.values())} rows, and the files of {name} on this host."
        return Answer({"name": name, "deleted": deleted}, [name], [note])

    return work
