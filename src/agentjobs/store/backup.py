"""Copies the store into a directory of its own while the service goes on.

Copies no encryption key, on purpose: a backup that somebody finds must not open what it holds.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from agentjobs.store.database import StoreError
from agentjobs.store.sqlite_connection import connect_reader, translate

SQLITE_COPY = "agentjobs.db"
POSTGRESQL_COPY = "postgresql.dump"
REPOSITORIES = "git"
SETTINGS_FILE = "agentjobs.toml"

_SQLITE = "sqlite:///"
# Refs before objects, and loose before packed: whatever a copied ref names is copied after it, and
# what git packs in between is found in the pack.
_FIRST_IN_REPOSITORY = ("HEAD", "config", "refs", "packed-refs", "objects")


def backup(database_url: str, data_dir: Path, target: Path) -> None:
    """Fill `target`, which must not exist yet; it appears complete or not at all."""
    with _appearing(target) as directory:
        # The database first: what its rows name in the repositories is there by then.
        if database_url.startswith(_SQLITE):
            _copy_sqlite(Path(database_url.removeprefix(_SQLITE)), directory / SQLITE_COPY)
        else:
            _dump_postgresql(database_url, directory / POSTGRESQL_COPY)
        _copy_repositories(data_dir / REPOSITORIES, directory / REPOSITORIES)
        settings_file = data_dir / SETTINGS_FILE
        if settings_file.is_file():
            shutil.copyfile(settings_file, directory / SETTINGS_FILE)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    if target.exists():
        raise StoreError(f"{target} exists already; a backup is never written over something")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        yield partial
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _copy_sqlite(source: Path, target: Path) -> None:
    if not source.is_file():
        raise StoreError(f"there is no database at {source}; name the service's --data-dir")
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(connect_reader(source, 5.0)) as reader, closing(sqlite3.connect(target)) as copy:
        try:
            reader.backup(copy)
            # A single file, without a write-ahead log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise translate(error, source) from None


def _dump_postgresql(url: str, target: Path) -> None:
    address, password = _without_password(url)
    environ = {**os.environ, "PGPASSWORD": password} if password else dict(os.environ)
    command = [_pg_dump(), "--format=custom", "--no-password", f"--file={target}"]
    done = subprocess.run(
        [*command, f"--dbname={address}"], env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines() or [f"pg_dump ended with {done.returncode}"]
        raise StoreError(f"the database could not be dumped: {reason[0]}")
    target.chmod(0o600)


def _without_password(url: str) -> tuple[str, str]:
    """A password on a command line could be read by every user of the machine."""
    parts = urlsplit(url)
    user, separator, place = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    address = urlunsplit(parts._replace(netloc=f"{name}{separator}{place}"))
    return address, unquote(password)


def _pg_dump() -> str:
    """The newest one: a server is dumped by a program of its own version or a later one."""
    installed = Path("/usr/lib/postgresql").glob("*/bin/pg_dump")
    newest = max(installed, key=_version, default=None)
    found = str(newest) if newest else shutil.which("pg_dump")
    if found is None:
        raise StoreError("pg_dump is missing: sudo apt-get install -y postgresql-client")
    return found


def _version(program: Path) -> int:
    text = program.parent.parent.name.partition(".")[0]
    return int(text) if text.isdecimal() else 0


def _copy_repositories(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    if not source.is_dir():
        return
    for repository in sorted(source.iterdir()):
        # Those that start with a dot are still coming in.
        if repository.is_dir() and not repository.name.startswith("."):
            _copy_repository(repository, target / repository.name)


def _copy_repository(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    others = sorted(entry.name for entry in source.iterdir())
    for name in dict.fromkeys((*_FIRST_IN_REPOSITORY, *others)):
        _copy_entry(source / name, target / name)


def _copy_entry(source: Path, target: Path) -> None:
    # Something may be packed, replaced or removed while it is copied; see the order above.
    with contextlib.suppress(FileNotFoundError):
        if not source.is_dir():
            shutil.copyfile(source, target)
            return
        target.mkdir(exist_ok=True)
        for entry in sorted(source.iterdir(), key=lambda entry: (entry.name == "pack", entry.name)):
            _copy_entry(entry, target / entry.name)
