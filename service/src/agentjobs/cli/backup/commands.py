"""`migrate`, `backup` and `restore`: commands for the whole store."""

from pathlib import Path
from typing import Annotated

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import Answer, print_answer, print_note


def migrate(data_dir: DataDir = None, json: Json = False) -> None:
    """Migrate the database to the current schema."""
    from agentjobs.cli.backup.migration import migrate_store

    migrated = migrate_store(data_dir)
    note = f"The {migrated.engine} database has the current schema, {migrated.revision}."
    print_answer(Answer(migrated, [], [note]), json=json)


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
    path = str(directory.absolute())
    print_answer(Answer({"path": path, "encryption_key": "left out"}, [path]), json=json)


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="Directory that `agentjobs backup` wrote.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Move an existing store and its repositories aside.")
    ] = False,
    without_key: Annotated[
        bool,
        typer.Option("--without-key", help="Restore although the encryption key is missing."),
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Restore a backup. The service must be stopped, and starts paused afterwards."""
    import asyncio

    from agentjobs.cli.backup import restore as restoring
    from agentjobs.cli.backup.restore_result import describe
    from agentjobs.cli.backup.restore_settings import settings_for

    directory = source.absolute()
    settings = settings_for(data_dir, directory)
    restored = asyncio.run(
        restoring.restore(settings, directory, force=force, without_key=without_key)
    )
    print_answer(Answer(restored, [restored.path], describe(restored)), json=json)
