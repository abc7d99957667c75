"""The programs of PostgreSQL's client package, and how they get the password."""

import os
import shutil
from pathlib import Path

from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.address import split_password


def find_program(name: str) -> str:
    """The newest installed version: it must not be older than the server or the dump."""
    installed = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(installed, key=_version, default=None)
    program = str(newest) if newest else shutil.which(name)
    if program is None:
        raise StoreError(f"{name} is not installed; run: sudo apt-get install -y postgresql-client")
    return program


def connection_arguments(url: str) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment: all users of the machine can see arguments, so the password is
    in the environment."""
    address, password = split_password(url)
    environ = {**os.environ, "PGPASSWORD": password} if password else dict(os.environ)
    return ["--no-password", f"--dbname={address}"], environ


def _version(program: Path) -> int:
    text = program.parent.parent.name.partition(".")[0]
    return int(text) if text.isdecimal() else 0
