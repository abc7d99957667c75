"""`backup.json`: what a backup contains, and what it needs to be restored."""

import hashlib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from agentjobs.cli.backup.target import repositories_in
from agentjobs.store.backup import POSTGRESQL_COPY, SQLITE_COPY
from agentjobs.store.database import Engine, StoreError
from agentjobs.store.restore import postgresql_revision, sqlite_revision

MANIFEST = "backup.json"
REPOSITORIES = "git"
FORMAT = 1
_COPIES: dict[str, Engine] = {SQLITE_COPY: "sqlite", POSTGRESQL_COPY: "postgresql"}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`encryption_key_ids` are the keys that the secrets in the database are encrypted with;
    `repositories` are the names in the directory of the repositories."""

    format: int = FORMAT
    version: str
    created_at: str
    database_sha256: str
    encryption_key_ids: list[str]
    repositories: list[str] = []


class Backup(msgspec.Struct, frozen=True):
    """`manifest` is None in backups of earlier versions."""

    directory: Path
    engine: Engine
    database: Path
    revision: str
    manifest: Manifest | None


def write_manifest(directory: Path, key_ids: list[str]) -> None:
    database, _ = _find_database(directory)
    manifest = Manifest(
        version=version("agentjobs"),
        created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        database_sha256=_sha256(database),
        encryption_key_ids=key_ids,
        repositories=[path.name for path in repositories_in(directory / REPOSITORIES)],
    )
    (directory / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))


def open_backup(directory: Path) -> Backup:
    """Checks that it is complete and unchanged; raises StoreError."""
    database, engine = _find_database(directory)
    manifest = _read_manifest(directory)
    if manifest is not None and _sha256(database) != manifest.database_sha256:
        raise StoreError(f"{database} is not what the backup wrote; use another backup")
    for name in () if manifest is None else manifest.repositories:
        if not (directory / REPOSITORIES / name).exists():
            raise StoreError(
                f"{directory / REPOSITORIES / name} is missing; copy the whole backup here, or use"
                " another one"
            )
    revision = (sqlite_revision if engine == "sqlite" else postgresql_revision)(database)
    if revision is None:
        raise StoreError(f"{database} is empty: there is nothing to restore")
    return Backup(directory, engine, database, revision, manifest)


def _find_database(directory: Path) -> tuple[Path, Engine]:
    for name, engine in _COPIES.items():
        if (directory / name).is_file():
            return directory / name, engine
    raise StoreError(f"{directory} is not a directory that `agentjobs backup` wrote")


def _read_manifest(directory: Path) -> Manifest | None:
    path = directory / MANIFEST
    try:
        document = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        manifest = msgspec.json.decode(document, type=Manifest)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} is damaged ({error}); use another backup") from None
    if manifest.format > FORMAT:
        raise StoreError(
            f"the backup was made by agentjobs {manifest.version}; restore it with that version"
        )
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
