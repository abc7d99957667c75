"""File systems that are full or read-only are named as such, by the store and by commands."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from agentjobs.store.database import Database, StoreFull, StoreUnavailable, Transaction
from agentjobs.store.opening import open_unchecked
from agentjobs_runtime.free_space import describe_read_only
from tests.support.bare_bwrap import bare_sandbox
from tests.support.paths import SOURCES
from tests.support.postgres import owned_directory, server_command

MIB = 1024**2
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
SQLITE = """
import asyncio, sys
from pathlib import Path
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.sqlite.database import SqliteDatabase

async def reason(call):
    try:
        await call
    except StoreUnavailable as error:
        return str(error)

def fill(file):
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass

async def main(disk):
    path = disk / "agentjobs.db"
    db = await SqliteDatabase.open(path)
    print("at first:", await reason(db.check_writable()))
    filler = open(disk / "filler", "wb", buffering=0)
    fill(filler)
    while (full := await reason(db.check_writable())) is None:
        pass
    print("full:", full)
    print("created:", await reason(SqliteDatabase.open(disk / "new" / "agentjobs.db")))
    await db.close()
    fill(filler)
    print("opened:", await reason(SqliteDatabase.open(path)))
    filler.truncate(0)
    db = await SqliteDatabase.open(path)
    print("later:", await reason(db.check_writable()))
    await db.close()

asyncio.run(main(Path(sys.argv[1])))
"""
LONG = "repeat('x', 1000) FROM generate_series(1, 100000)"
# The server has another owner if the tests run as root.
OWNER = () if os.geteuid() else ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
PROGRAM = "from agentjobs.cli.main import main; main()"


async def test_a_full_disk_of_sqlite_is_named_and_no_change_is_possible(tmp_path: Path) -> None:
    options = ("--size", str(2 * MIB), "--tmpfs", str(tmp_path))
    command = (sys.executable, "-c", SQLITE, str(tmp_path))
    async with bare_sandbox(*command, options=options, environment=ENVIRONMENT) as sandbox:
        output = await sandbox.run()
    full = f"the disk of {tmp_path} is full; free some space there"
    database = f"the database {tmp_path}/agentjobs.db cannot be used: {full}"
    assert output.splitlines() == [
        "at first: None",
        f"full: {database}",
        f"created: {database.replace(str(tmp_path), f'{tmp_path}/new')}",
        f"opened: {database}",
        "later: None",
    ]


@pytest.mark.parametrize("has_own_url", [True, False])
async def test_a_read_only_file_system_is_one_line_that_says_what_to_do(
    tmp_path: Path, sqlite_url: str, has_own_url: bool
) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    options = ("--ro-bind", str(file.parent), str(tmp_path))
    own = {"AGENTJOBS_DATABASE_URL": f"sqlite:///{tmp_path}/{file.name}"} if has_own_url else {}
    environment = {**ENVIRONMENT, "AGENTJOBS_DATA_DIR": str(tmp_path), **own}
    command = (sys.executable, "-c", PROGRAM, "keys", "create")
    async with bare_sandbox(*command, options=options, environment=environment) as sandbox:
        (line,) = (await sandbox.run()).splitlines()
    assert line.startswith("agentjobs: the data")
    assert line.endswith(
        describe_read_only(tmp_path)
        if has_own_url
        else "read-only file system: choose another one with --data-dir or AGENTJOBS_DATA_DIR"
    )


def mounts(disk: Path, sockets: Path) -> tuple[str, ...]:
    small = ("--perms", "0777", "--size", str(72 * MIB), "--tmpfs", str(disk))
    return (*small, "--bind", str(sockets), str(sockets))


async def run_statement(db: Database, statement: str) -> None:
    async def run(tx: Transaction) -> None:
        await tx.execute(statement)

    await db.transact(run)


async def test_a_full_disk_of_postgresql_is_named_and_no_change_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = "agentjobs.store.postgresql.database._FULL_SECONDS"
    monkeypatch.setattr(remembered, 600)
    disk, sockets = tmp_path / "disk", owned_directory("agentjobs-sockets-")
    disk.mkdir()
    command = server_command(disk, sockets)
    async with bare_sandbox(*command, options=(*mounts(disk, sockets), *OWNER)) as sandbox:
        await sandbox.run_in_background()
        db = await opened(f"postgresql://agentjobs@/postgres?host={sockets}")
        await run_statement(db, "CREATE TABLE texts (value TEXT)")
        await db.check_writable()
        with pytest.raises(StoreFull):
            await run_statement(db, f"COPY (SELECT {LONG}) TO '{disk}/filler'")
        with pytest.raises(StoreFull, match="the disk of the database server is full") as full:
            await run_statement(db, f"INSERT INTO texts SELECT {LONG}")
        assert "No space left on device" in str(full.value)
        with pytest.raises(StoreFull, match="free some space"):
            await db.check_writable()
        await run_statement(db, f"COPY (SELECT 1) TO '{disk}/filler'")
        monkeypatch.setattr(remembered, 0)
        await db.check_writable()
        await db.close()
    shutil.rmtree(sockets)


async def opened(url: str) -> Database:
    async with asyncio.timeout(60):
        while True:
            db = await open_unchecked(url, listen=False)
            try:
                await db.ping()
            except StoreUnavailable:
                await db.close()
                await asyncio.sleep(0.05)
            else:
                return db
