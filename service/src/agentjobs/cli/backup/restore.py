"""Restores a backup: checks everything first, prepares the files beside their place, and moves them
there at the end. Nothing is deleted: with `force`, what was there is moved aside."""

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from agentjobs.cli.admin import operator
from agentjobs.cli.backup.manifest import REPOSITORIES, Backup, open_backup
from agentjobs.cli.backup.repository_copy import copy_repository
from agentjobs.cli.backup.restore_result import Restored
from agentjobs.cli.backup.restore_settings import restore_settings_file
from agentjobs.cli.backup.target import (
    Target,
    exclusive_use,
    open_target,
    repositories_in,
    require_apart,
    require_owner,
    require_space,
)
from agentjobs.cli.output import print_note
from agentjobs.jobs.queue.leases import release_statement
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import write_service_entry
from agentjobs.organizations.pauses import restore_statements
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, StoreError
from agentjobs.store.opening import open_unchecked
from agentjobs.store.restore import dumped_tables, load_postgresql, prepare_sqlite
from agentjobs.store.revisions import is_behind, is_of_0_2, is_older
from agentjobs.webhooks.maintenance import hold_statement
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.settings import Settings


async def restore(
    settings: Settings, directory: Path, *, force: bool, without_key: bool
) -> Restored:
    for place in (settings.data_path, settings.repositories_path):
        require_apart(place, directory)
        require_owner(place)
    print_note("Checking the backup")
    backup = await asyncio.to_thread(open_backup, directory)
    if is_of_0_2(backup.revision):
        raise StoreError(
            "the backup was made by agentjobs 0.2; restore it with agentjobs 0.2.0, then run"
            " `agentjobs migrate` of this version"
        )
    needs_migration = is_older(backup.revision)
    _require_engine(settings, backup)
    if not without_key:
        _require_keys(settings, backup)
    _require_space(settings, backup)
    tables = dumped_tables(backup.database) if backup.engine == "postgresql" else []
    target = await open_target(settings, tables, force=force)
    now = now_ms()
    result = Restored(
        path=settings.data_dir,
        restored_at=iso_utc(now),
        engine=backup.engine,
        revision=backup.revision,
        needs_migration=needs_migration,
    )
    settings.data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive_use(settings.data_path):
        await _restore_files(backup, target, result, now)
    return result


async def _restore_files(backup: Backup, target: Target, result: Restored, now: int) -> None:
    suffix = f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    incoming = target.repositories / ".restoring"
    await asyncio.to_thread(shutil.rmtree, incoming, ignore_errors=True)
    target.repositories.mkdir(mode=0o700, parents=True, exist_ok=True)
    incoming.mkdir(mode=0o700)
    try:
        print_note("Restoring the repositories")
        result.repositories = await _copy_repositories(backup, incoming)
        print_note("Restoring the database")
        restore_database = _restore_sqlite if backup.engine == "sqlite" else _restore_postgresql
        await asyncio.to_thread(restore_database, backup, target, result, _statements(now), suffix)
        _move_repositories(incoming, target.repositories, result, suffix)
        restore_settings_file(backup.directory, target.settings, result)
        await _describe_rows(target.settings, result, now)
    finally:
        await asyncio.to_thread(shutil.rmtree, incoming, ignore_errors=True)


def _statements(now: int) -> tuple[str, ...]:
    return (*restore_statements(now), release_statement(), hold_statement(now))


def _require_engine(settings: Settings, backup: Backup) -> None:
    if backup.engine == "postgresql" and not settings.database_url:
        raise StoreError(
            "the backup is of a PostgreSQL database; set AGENTJOBS_DATABASE_URL to an empty one"
        )
    if backup.engine == "sqlite" and settings.database_url:
        raise StoreError(
            "the backup is of an SQLite database, which cannot be restored into PostgreSQL; unset"
            " database_url"
        )


def _require_keys(settings: Settings, backup: Backup) -> None:
    if backup.manifest is None:
        return
    keys = SealingKeys.load(settings)
    missing = set(backup.manifest.encryption_key_ids) - set(keys.ids())
    if missing:
        raise StoreError(
            f"the secrets in the backup are encrypted with the key {min(missing)}, which is not"
            f" here; copy the file encryption.key to {keys.path} (mode 0600) or set"
            " AGENTJOBS_ENCRYPTION_KEY, or pass --without-key to restore without the secrets"
        )


def _require_space(settings: Settings, backup: Backup) -> None:
    database_bytes = backup.database.stat().st_size
    files = (path for path in (backup.directory / REPOSITORIES).rglob("*") if path.is_file())
    repository_bytes = sum(path.stat().st_size for path in files)
    is_local = backup.engine == "sqlite"
    require_space(settings.data_path, database_bytes if is_local else 0)
    require_space(settings.repositories_path, repository_bytes + database_bytes * is_local)


async def _copy_repositories(backup: Backup, incoming: Path) -> int:
    source = backup.directory / REPOSITORIES
    repositories = [path for path in repositories_in(source) if path.is_dir()]
    for repository in repositories:
        await copy_repository(repository, incoming / repository.name)
    for marker in (path for path in repositories_in(source) if path.is_file()):
        shutil.copyfile(marker, incoming / marker.name)
    return len(repositories)


def _restore_sqlite(
    backup: Backup, target: Target, result: Restored, statements: tuple[str, ...], suffix: str
) -> None:
    file = target.settings.database_file
    prepared = file.with_name(".agentjobs.db.restoring")
    for leftover in (prepared, prepared.with_name(f"{prepared.name}-journal")):
        leftover.unlink(missing_ok=True)
    try:
        prepare_sqlite(backup.database, prepared, statements)
        if file.exists():
            aside = file.with_name(f"{file.name}.{suffix}")
            os.link(file, aside)
            result.replaced.append(str(aside))
        for log in (file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm")):
            if log.exists():
                log.rename(log.with_name(f"{log.name}.{suffix}"))
        prepared.replace(file)
    finally:
        prepared.unlink(missing_ok=True)


def _restore_postgresql(
    backup: Backup, target: Target, result: Restored, statements: tuple[str, ...], suffix: str
) -> None:
    schema = f"agentjobs_{suffix.replace('-', '_').lower()}"
    before = [f'ALTER TABLE "{table}" SET SCHEMA {schema}' for table in target.tables]
    settings = target.settings
    load_postgresql(
        settings.database_direct_url or settings.effective_database_url,
        backup.database,
        before=[f"CREATE SCHEMA {schema}", *before] if before else [],
        after=statements,
    )
    if before:
        result.replaced.append(f"schema {schema}")


def _move_repositories(incoming: Path, root: Path, result: Restored, suffix: str) -> None:
    if existing := repositories_in(root):
        aside = root / f".{suffix}"
        aside.mkdir(mode=0o700)
        for path in existing:
            path.rename(aside / path.name)
        result.replaced.append(str(aside))
    for path in incoming.iterdir():
        path.rename(root / path.name)


async def _describe_rows(settings: Settings, result: Restored, restored_at: int) -> None:
    db = await open_unchecked(
        settings.effective_database_url, listen=False, direct_url=settings.database_direct_url
    )
    try:
        row = await db.fetch_one(
            "SELECT (SELECT COUNT(*) FROM jobs WHERE status = 'queued') AS queued,"
            " (SELECT COUNT(*) FROM jobs WHERE status = 'running') AS running,"
            " (SELECT COUNT(*) FROM deliveries"
            "  WHERE status || '' = 'failed' AND due_at = :at) AS held",
            at=restored_at,
        )
        assert row is not None
        result.queued_jobs, result.running_jobs = row["queued"], row["running"]
        result.held_deliveries = row["held"]
        if not await is_behind(db):
            await _write_audit_entry(db, result)
    finally:
        await db.close()


async def _write_audit_entry(db: Database, result: Restored) -> None:
    with audit.acting_as(operator()):
        entry = audit.entry("service.restored", "service", revision=result.revision)
    await db.transact(write_service_entry, entry)
