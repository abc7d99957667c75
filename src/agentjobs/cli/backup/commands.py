"""`migrate` and `backup`: what an operator does to the store as a whole."""

from pathlib import Path
from typing import Annotated

import typer

from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import answer, answer_json, remark


def migrate(data_dir: DataDir = None, json: Json = False) -> None:
    """Bring the database to the schema of this program."""

    async def work(admin: Admin) -> str:
        return admin.db.engine

    engine = with_store(data_dir, work)
    if json:
        answer_json({"engine": engine, "current": True})
    else:
        remark(f"The {engine} database has the current schema.")


def backup(
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[TARGET]", help="A new directory (default: named by the time)."),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Copy the database and the repositories into a new directory; the service may run."""
    import asyncio
    from datetime import UTC, datetime

    from agentjobs.cli.backup import copy

    settings = load_settings(data_dir)
    directory = target or Path(f"agentjobs-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    asyncio.run(copy.backup(settings, directory.absolute()))
    remark("The encryption key is not in the backup: keep it apart, or what it protects is lost.")
    if json:
        answer_json({"path": str(directory.absolute()), "encryption_key": "left out"})
    else:
        answer(str(directory.absolute()))
