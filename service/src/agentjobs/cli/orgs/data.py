"""`agentjobs orgs export` and `delete`: all data of an organization."""

from pathlib import Path
from typing import Annotated

import typer

from agentjobs.cli.admin import with_store
from agentjobs.cli.confirmation import confirm_name
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.orgs.commands import Name, orgs
from agentjobs.cli.output import Answer, print_answer


@orgs.command("export")
def export_org(
    name: Name,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="New zip file (default: NAME-export.zip)."),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Write all data of an organization into a zip file. The service can keep running."""
    from agentjobs.cli.orgs.export import export_organization

    target = (output or Path(f"{name}-export.zip")).absolute()
    exported = with_store(
        data_dir, lambda admin: export_organization(admin.db, admin.settings, name, target)
    )
    document = {"path": str(target), "tables": exported.tables, "secrets": "names only"}
    note = (
        f"{sum(exported.tables.values())} rows and {len(exported.repositories)} repositories of"
        f" {name}; of secrets, only the names."
    )
    print_answer(Answer(document, [str(target)], [note]), json=json)


@orgs.command("delete")
def delete_org(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Cancel jobs that run.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Delete an organization with everything that belongs to it. This cannot be undone."""
    if not yes:
        contents = "jobs, repositories, pull requests, keys and users"
        confirm_name(name, "organization", f"deletes all data of {name}: {contents}")
    from agentjobs.cli.orgs.deletion import delete_organization

    deleted = with_store(
        data_dir, lambda admin: delete_organization(admin.db, admin.settings, name, force=force)
    )
    note = f"Deleted {sum(deleted.values())} rows, and the files of {name} on this host."
    print_answer(Answer({"name": name, "deleted": deleted}, [name], [note]), json=json)
