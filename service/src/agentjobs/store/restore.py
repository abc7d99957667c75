"""Loads a copy that `store.backup` made, and changes its rows, in one step: nobody sees the rows
before the change. Knows no tables."""

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.programs import connection_arguments, find_program

_CHUNK = 1024**2
_TABLE = re.compile(r"^\d+; \d+ \d+ TABLE \S+ (\S+) ", re.MULTILINE)
_REVISION = re.compile(r"^COPY [^\n]*alembic_version [^\n]*\n(\w+)$", re.MULTILINE)
# Written by pg_restore 17, and unknown to earlier servers.
_UNKNOWN_SETTING = b"SET transaction_timeout = 0;\n"


def sqlite_revision(source: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{source.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            row = db.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise _damaged(source, str(error)) from None
    return None if row is None else row[0]


def prepare_sqlite(source: Path, target: Path, statements: Iterable[str]) -> None:
    """Creates `target`, which the caller then moves to its place."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as copied, os.fdopen(descriptor, "wb") as written:
        shutil.copyfileobj(copied, written, _CHUNK)
        written.flush()
        os.fsync(written.fileno())
    try:
        with closing(sqlite3.connect(target)) as db, db:
            (result,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                raise _damaged(source, result)
            for statement in statements:
                db.execute(statement)
    except sqlite3.Error as error:
        raise _damaged(source, str(error)) from None


def release_sqlite(path: Path) -> None:
    """Ends the write-ahead log of a database that is to be replaced. Raises if it is in use."""
    try:
        with closing(sqlite3.connect(path, timeout=1)) as db:
            db.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreError(f"a process uses {path}; stop the service first") from None
        # It is replaced because it is damaged.


def postgresql_revision(dump: Path) -> str | None:
    match = _REVISION.search(_read_dump(dump, "--data-only", "--table=alembic_version", "--file=-"))
    return match[1] if match else None


def dumped_tables(dump: Path) -> list[str]:
    return _TABLE.findall(_read_dump(dump, "--list"))


def load_postgresql(url: str, dump: Path, *, before: Sequence[str], after: Sequence[str]) -> None:
    """One transaction: `before`, the dump, `after`."""
    is_rejected = False
    with (
        tempfile.TemporaryFile() as dump_errors,
        tempfile.TemporaryFile() as errors,
        _start_pg_restore(dump, dump_errors) as script,
        _start_psql(url, errors) as psql,
    ):
        assert script.stdout is not None
        assert psql.stdin is not None
        try:
            psql.stdin.write(_lines("BEGIN", *before))
            psql.stdin.write(script.stdout.read(_CHUNK).replace(_UNKNOWN_SETTING, b"", 1))
            shutil.copyfileobj(script.stdout, psql.stdin, _CHUNK)
            # Without the last line, psql rolls back: the end of its input commits nothing.
            if script.wait() == 0:
                psql.stdin.write(_lines("RESET search_path", *after, "COMMIT"))
            psql.stdin.flush()
        except BrokenPipeError:
            is_rejected = True
        script.stdout.close()
        with suppress(BrokenPipeError):
            psql.stdin.close()
        if script.wait() != 0 and not is_rejected:
            raise _damaged(dump, _first_error(dump_errors))
        if psql.wait() != 0:
            raise StoreError(f"the database could not be restored: {_first_error(errors)}")


def _start_pg_restore(dump: Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Its output is the dump as SQL."""
    command = [find_program("pg_restore"), "--no-owner", "--no-acl", "--file=-", str(dump)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)


def _start_psql(url: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    arguments, environ = connection_arguments(url)
    options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
    return subprocess.Popen(
        [find_program("psql"), *options, *arguments],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )


def _read_dump(dump: Path, *options: str) -> str:
    process = subprocess.run(
        [find_program("pg_restore"), *options, str(dump)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise _damaged(dump, (process.stderr.splitlines() or ["pg_restore failed"])[0])
    return process.stdout


def _lines(*statements: str) -> bytes:
    return "".join(f"{statement};\n" for statement in statements).encode()


def _first_error(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read(_CHUNK).decode("utf-8", "replace").splitlines()
    return next((line for line in lines if "ERROR" in line), lines[0] if lines else "no reason")


def _damaged(file: Path, reason: str) -> StoreError:
    return StoreError(f"{file} is damaged or no backup of agentjobs ({reason}); use another backup")
