"""`migrate` and `backup`: commands for the whole store."""

from pathlib import Path
from typing import Annotated

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result


def migrate(data_dir: DataDir = None, json: Json = False) -> None:
    """Migrate the database to the current schema."""
    from agentjobs.cli.backup.migration import migrate_store

    migrated = migrate_store(data_dir)
    if json:
        print_json(migrated)
    else:
        print_note(f"The {migrated.engine} database has the current schema, {migrated.revision}.")


def backup(
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[TARGET]", help="New directory (default: agentjobs-backup-TIME)."),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Back up the database and the repositories. The service can keep running."""
    import asyncio
    from datetime import UTC, datetime

    from agentjobs.cli.backup import copy

    settings = load_settings(data_dir)
    directory = target or Path(f"agentjobs-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    asyncio.run(copy.backup(settings, directory.absolute()))
    print_note(
        "The backup does not include the encryption key. Back it up separately: secrets cannot be "
        "recovered without it."
    )
    if json:
        print_json({"path": str(directory.absolute()), "encryption_key": "left out"})
    else:
        print_result(str(directory.absolute()))
