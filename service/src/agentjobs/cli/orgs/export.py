"""Writes all data of an organization into a zip file: its rows and its `local` repositories.

Reads in pages while the service runs. Secrets appear with their names only.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import msgspec

from agentjobs.cli.orgs.tables import tenant_tables
from agentjobs.local_git import repositories
from agentjobs.organizations.organizations import Organization, find_organization
from agentjobs.store.database import Database
from agentjobs.store.revisions import current_revision
from agentjobs.store.tenant_rows import TenantTable
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.refs import list_branches
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

FORMAT = 1
_BUNDLE_SECONDS = 3600.0


class Exported(msgspec.Struct, frozen=True):
    """The number of rows by table, and the bundle of each repository by its identifier."""

    tables: dict[str, int]
    repositories: dict[str, str]


async def export_organization(
    db: Database, settings: Settings, name: str, target: Path
) -> Exported:
    """Creates `target`, which must not exist, atomically."""
    organization = await find_organization(db, name)
    await _require_repositories(db, settings, organization)
    with _atomic_file(target) as partial, ZipFile(partial, "w", ZIP_DEFLATED) as archive:
        exported = Exported(
            await _write_tables(db, organization, archive),
            await _write_repositories(db, settings, organization, archive, target.parent),
        )
        document = await _describe(db, organization, exported)
        archive.writestr("export.json", msgspec.json.format(msgspec.json.encode(document)))
    return exported


async def _describe(db: Database, organization: Organization, exported: Exported) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "organization": organization.name,
        "exported_at": iso_utc(now_ms()),
        "service_version": version("agentjobs"),
        "schema": await current_revision(db),
        "tables": exported.tables,
        "repositories": exported.repositories,
    }


async def _write_tables(
    db: Database, organization: Organization, archive: ZipFile
) -> dict[str, int]:
    tables = tenant_tables()
    counts: dict[str, int] = {}
    for table in sorted(tables.all, key=lambda table: table.name):
        counts[table.name] = 0
        with archive.open(f"tables/{table.name}.jsonl", "w", force_zip64=True) as file:
            async for rows in tables.read(db, table, organization.id):
                counts[table.name] += len(rows)
                text = b"".join(_line(table, dict(row)) for row in rows)
                await asyncio.to_thread(file.write, text)
    return counts


def _line(table: TenantTable, row: dict[str, Any]) -> bytes:
    """Bytes become base64."""
    shown = {name: value for name, value in row.items() if name not in table.unexported}
    return msgspec.json.encode(shown) + b"\n"


async def _require_repositories(
    db: Database, settings: Settings, organization: Organization
) -> None:
    for repo_id in await _local_repositories(db, organization.id, only_connected=True):
        repositories.present_path(settings.repositories_path, repo_id)


async def _local_repositories(
    db: Database, organization_id: str, *, only_connected: bool = False
) -> list[str]:
    condition = " AND disconnected_at IS NULL" if only_connected else ""
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE organization_id = :organization_id AND platform = 'local'"
        f"{condition} ORDER BY id",
        organization_id=organization_id,
    )
    return [row["id"] for row in rows]


async def _write_repositories(
    db: Database, settings: Settings, organization: Organization, archive: ZipFile, scratch: Path
) -> dict[str, str]:
    bundles: dict[str, str] = {}
    for repo_id in await _local_repositories(db, organization.id):
        git_dir = repositories.path(settings.repositories_path, repo_id)
        if not (git_dir / "HEAD").is_file() or not await list_branches(git_dir):
            continue
        bundles[repo_id] = f"repositories/{repo_id}.bundle"
        with tempfile.TemporaryDirectory(dir=scratch, prefix=".export-") as directory:
            bundle = Path(directory) / "bundle"
            await git(
                *("bundle", "create", "--quiet", str(bundle), "--all"),
                git_dir=git_dir,
                timeout_seconds=_BUNDLE_SECONDS,
            )
            await asyncio.to_thread(_add_file, archive, bundle, bundles[repo_id])
    return bundles


def _add_file(archive: ZipFile, path: Path, name: str) -> None:
    """Bundles are compressed already."""
    member = ZipInfo.from_file(path, name)
    member.compress_type = ZIP_STORED
    with path.open("rb") as source, archive.open(member, "w", force_zip64=True) as target:
        shutil.copyfileobj(source, target, 1024 * 1024)


@contextmanager
def _atomic_file(target: Path) -> Iterator[Path]:
    """Only its owner can read it."""
    if target.exists():
        raise Problem("file_exists", f"{target} already exists; choose another file.")
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield partial
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
