"""Writes a backup: the database, the repositories of the platform `local`, the settings file.

Leaves out the encryption key, so that a stolen backup reveals no secrets.
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentjobs.cli.backup.manifest import REPOSITORIES, write_manifest
from agentjobs.cli.backup.repository_copy import copy_repository
from agentjobs.fleet.repositories_directory import MARKER
from agentjobs.local_git import repositories
from agentjobs.store.backup import copy_database, require_database_file
from agentjobs.store.database import Database, StoreError
from agentjobs.store.opening import open_unchecked
from agentjobs.store.revisions import current_revision
from agentjobs.store.schema import read_schema
from agentjobs_runtime.settings import Settings

SETTINGS_FILE = "agentjobs.toml"


async def backup(settings: Settings, target: Path) -> None:
    """Creates `target`, which must not exist, atomically."""
    root = settings.repositories_path
    if target.resolve().is_relative_to(root.resolve()):
        raise StoreError(f"{target} is among the repositories; choose another directory")
    # A dump is one long transaction with session state, so it bypasses a pooler.
    url = settings.database_direct_url or settings.effective_database_url
    with _atomic_directory(target) as directory:
        require_database_file(url)
        key_ids = await _check_store(url, root)
        # The database first, so that the repositories contain every commit it names.
        await asyncio.to_thread(copy_database, url, directory)
        await _copy_repositories(root, directory / REPOSITORIES)
        settings_file = Path(settings.config_file)
        if settings_file.is_file():
            shutil.copyfile(settings_file, directory / SETTINGS_FILE)
        await asyncio.to_thread(write_manifest, directory, key_ids)


@contextmanager
def _atomic_directory(target: Path) -> Iterator[Path]:
    if target.exists() or target.is_symlink():
        raise StoreError(f"{target} already exists; choose a new directory")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        yield partial
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


async def _check_store(url: str, root: Path) -> list[str]:
    """Returns the keys that secrets are encrypted with. Works with any schema version, because
    backups precede migrations."""
    db = await open_unchecked(url, listen=False)
    try:
        if await current_revision(db) is None:
            return []
        await _require_repositories(db, root)
        return await _key_ids(db)
    finally:
        await db.close()


async def _require_repositories(db: Database, root: Path) -> None:
    rows = await db.fetch_all(
        "SELECT id, full_name FROM repos"
        " WHERE platform = 'local' AND disconnected_at IS NULL ORDER BY id"
    )
    missing = [
        row["full_name"]
        for row in rows
        if not (repositories.path(root, row["id"]) / "HEAD").is_file()
    ]
    if missing:
        raise StoreError(
            f"the files of {', '.join(missing[:3])}{' and others' if missing[3:] else ''} are not"
            f" in {root}; run this on a host of `agentjobs serve`, with its data directory or"
            " AGENTJOBS_REPOSITORIES_DIR"
        )


async def _key_ids(db: Database) -> list[str]:
    """Every table with encrypted values says by which key."""
    schema = await read_schema(db)
    key_ids = {
        row["key_id"]
        for table, columns in schema.tables.items()
        for column in columns
        if column.endswith("key_id")
        for row in await db.fetch_all(f'SELECT DISTINCT "{column}" AS key_id FROM "{table}"')
    }
    return sorted(key_id for key_id in key_ids if key_id)


async def _copy_repositories(source: Path, target: Path) -> None:
    """While every process may push to them; `copy_repository` copies what is new, and checks."""
    target.mkdir(mode=0o700)
    if not source.is_dir():
        return
    if (source / MARKER).is_file():
        # The restored database expects it beside the repositories.
        shutil.copyfile(source / MARKER, target / MARKER)
    for repository in sorted(source.iterdir()):
        # Names with a leading dot are incomplete imports.
        if repository.is_dir() and not repository.name.startswith("."):
            await copy_repository(repository, target / repository.name)
