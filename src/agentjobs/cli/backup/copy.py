"""Writes a backup: the database, the repositories of the platform `local`, the settings file.

Leaves out the encryption key, so that a stolen backup reveals no secrets.
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentjobs.cli.backup.repository_copy import copy_repository
from agentjobs.fleet.repositories_directory import MARKER
from agentjobs.local_git import repositories
from agentjobs.settings import Settings
from agentjobs.store.backup import copy_database, require_database_file
from agentjobs.store.database import StoreError
from agentjobs.store.opening import open_unchecked
from agentjobs.store.revisions import current_revision

SETTINGS_FILE = "agentjobs.toml"
REPOSITORIES = "git"


async def backup(settings: Settings, target: Path) -> None:
    """Creates `target`, which must not exist, atomically."""
    root = settings.repositories_path
    # A dump is one long transaction with session state, so it bypasses a pooler.
    url = settings.database_direct_url or settings.effective_database_url
    with _atomic_directory(target) as directory:
        require_database_file(url)
        await _require_repositories(url, root)
        # The database first, so that the repositories contain every commit it names.
        await asyncio.to_thread(copy_database, url, directory)
        await _copy_repositories(root, directory / REPOSITORIES)
        settings_file = settings.data_path / SETTINGS_FILE
        if settings_file.is_file():
            shutil.copyfile(settings_file, directory / SETTINGS_FILE)


@contextmanager
def _atomic_directory(target: Path) -> Iterator[Path]:
    if target.exists():
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


async def _require_repositories(url: str, root: Path) -> None:
    missing = [
        full_name
        for repo_id, full_name in await _connected_repositories(url)
        if not (repositories.path(root, repo_id) / "HEAD").is_file()
    ]
    if missing:
        raise StoreError(
            f"the files of {', '.join(missing[:3])}{' and others' if missing[3:] else ''} are not"
            f" in {root}; run this on a host of `agentjobs serve`, with its data directory or"
            " AGENTJOBS_REPOSITORIES_DIR"
        )


async def _connected_repositories(url: str) -> list[tuple[str, str]]:
    """Works with any schema version, because backups precede migrations."""
    db = await open_unchecked(url)
    try:
        if await current_revision(db) is None:
            return []
        rows = await db.fetch_all(
            "SELECT id, full_name FROM repos"
            " WHERE platform = 'local' AND disconnected_at IS NULL ORDER BY id"
        )
        return [(row["id"], row["full_name"]) for row in rows]
    finally:
        await db.close()


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
