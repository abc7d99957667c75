"""Databases with the schema that the migrations create up to a revision, and nothing else."""

from pathlib import Path
from unittest.mock import patch

from alembic import command

from agentjobs.store import migrate


async def migrate_to(url: str, revision: str) -> None:
    upgrade = command.upgrade
    with (
        patch.object(command, "upgrade", lambda config, _: upgrade(config, revision)),
        patch.object(migrate, "_mend", lambda _: None),
    ):
        if url.startswith("sqlite:"):
            await migrate.migrate_sqlite(Path(url.removeprefix("sqlite:///")))
        else:
            await migrate.migrate_postgresql(url)
