"""Databases with the schema of an earlier version."""

from pathlib import Path
from unittest.mock import patch

from alembic import command

from agentjobs.store.migrate import migrate_postgresql, migrate_sqlite


async def migrate_to(url: str, revision: str) -> None:
    upgrade = command.upgrade
    with patch.object(command, "upgrade", lambda config, _: upgrade(config, revision)):
        if url.startswith("sqlite:"):
            await migrate_sqlite(Path(url.removeprefix("sqlite:///")))
        else:
            await migrate_postgresql(url)
