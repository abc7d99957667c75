"""Where a backup is restored to: whether it is empty and unused, and has enough space."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agentjobs.fleet.processes import SILENT_MS
from agentjobs.fleet.repositories_directory import MARKER
from agentjobs.store.database import Database, StoreError
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.opening import open_unchecked
from agentjobs.store.restore import release_sqlite
from agentjobs.store.schema import expected_schema, read_schema
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.files.locks import try_lock
from agentjobs_runtime.free_space import MIB, free_bytes
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.file_access import find_other_owner

_FORCE = "restore into an empty one, or pass --force to move what is there aside"


class Target(NamedTuple):
    """`tables` are those of agentjobs that the PostgreSQL database already has."""

    settings: Settings
    tables: list[str]

    @property
    def repositories(self) -> Path:
        return self.settings.repositories_path


def require_owner(directory: Path) -> None:
    """Otherwise the service could not read the files."""
    if (owner := find_other_owner(directory)) is not None:
        raise StoreError(
            f"{directory} belongs to {owner}; run this as that user: sudo -u {owner} …"
        )


def require_apart(directory: Path, backup: Path) -> None:
    """Otherwise the restore would change the backup."""
    if directory.resolve().is_relative_to(backup.resolve()):
        raise StoreError(f"{directory} is in the backup; choose another data directory")


def require_space(directory: Path, needed_bytes: int) -> None:
    free = free_bytes(directory)
    if free < needed_bytes:
        raise StoreError(
            f"the disk of {directory} has {free // MIB} MiB free, but the backup needs"
            f" {needed_bytes // MIB + 1} MiB; free space or choose another data directory"
        )


@contextmanager
def exclusive_use(directory: Path) -> Iterator[None]:
    """The second of two concurrent restores fails. The system unlocks when the process ends."""
    descriptor = try_lock(directory)
    if descriptor is None:
        raise StoreError(f"another command is changing {directory}; try again when it has ended")
    try:
        yield
    finally:
        os.close(descriptor)


async def open_target(settings: Settings, dumped_tables: list[str], *, force: bool) -> Target:
    """Raises StoreError if it is in use, or not empty without `force`."""
    target = Target(settings, [])
    if settings.database_url:
        target = Target(settings, await _tables_in_use(settings, dumped_tables, force=force))
    elif settings.database_file.exists():
        if not force:
            raise StoreError(f"{settings.database_file} exists; {_FORCE}")
        release_sqlite(settings.database_file)
    if not force and (existing := repositories_in(target.repositories)):
        raise StoreError(f"{existing[0]} exists; {_FORCE}")
    return target


def repositories_in(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.suffix == ".git" or path.name == MARKER)


async def _tables_in_use(settings: Settings, dumped_tables: list[str], *, force: bool) -> list[str]:
    url = settings.database_direct_url or settings.effective_database_url
    db = await open_unchecked(url, listen=False)
    try:
        actual = await read_schema(db)
        known = {*expected_schema("postgresql").tables, *dumped_tables, "alembic_version"}
        tables = sorted(known & {*actual.tables, *await _version_table(db)})
        if tables and not force:
            raise StoreError(f"the database already has the table {tables[0]}; {_FORCE}")
        if {"processes", "workers"} <= set(tables) and (host := await running_on(db)):
            raise StoreError(f"services on {host} use this database; stop them all first")
        return tables
    finally:
        await db.close()


async def _version_table(db: Database) -> list[str]:
    row = await db.fetch_one("SELECT 1 AS found WHERE to_regclass('alembic_version') IS NOT NULL")
    return [] if row is None else ["alembic_version"]


async def running_on(db: Database) -> str | None:
    """The machine of a process that uses the database."""
    row = await db.fetch_one(
        "SELECT hostname FROM (SELECT hostname, heartbeat_at FROM processes"
        " UNION ALL SELECT hostname, heartbeat_at FROM workers) p"
        f" WHERE p.heartbeat_at > {DATABASE_NOW} - CAST(:silent_ms AS BIGINT) LIMIT 1",
        silent_ms=SILENT_MS,
        now=now_ms(),
    )
    return None if row is None else row["hostname"]
