"""Migrates the store on request, and shows the steps that the store logs."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agentjobs.app.settings_checks import check_features
from agentjobs.cli.admin import Admin, load_settings, with_store
from agentjobs.cli.backup.target import running_on
from agentjobs.cli.output import print_note
from agentjobs.store.database import Engine, StoreError
from agentjobs.store.opening import open_unchecked
from agentjobs.store.revisions import LAST_OF_0_2, current_revision
from agentjobs_runtime.settings import Settings


class Migrated(msgspec.Struct, frozen=True):
    """`previous_revision` is None if the database was empty."""

    engine: Engine
    previous_revision: str | None
    revision: str | None
    current: bool = True


def migrate_store(data_dir: Path | None) -> Migrated:
    settings = load_settings(data_dir)
    # The new version would not start with them, so the store stays as it is.
    check_features(settings)
    previous = asyncio.run(_stored_revision(settings))

    async def work(admin: Admin) -> Migrated:
        return Migrated(admin.db.engine, previous, await current_revision(admin.db))

    with _showing_steps():
        return with_store(data_dir, work, migrate=True)


async def _stored_revision(settings: Settings) -> str | None:
    if not settings.database_url and not settings.database_file.exists():
        return None
    db = await open_unchecked(
        settings.effective_database_url, listen=False, direct_url=settings.database_direct_url
    )
    try:
        revision = await current_revision(db)
        if revision == LAST_OF_0_2 and (host := await running_on(db)):
            raise StoreError(f"services on {host} use this database; stop them all first")
        return revision
    finally:
        await db.close()


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def _showing_steps() -> Iterator[None]:
    logger, handler = logging.getLogger("agentjobs.store"), _Notes(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
