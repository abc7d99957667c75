"""A database of 0.2.0, with rows in every table.

The rows are those of a service of the browser's tests, which ran jobs, and of `filled`, an
organization with a value in every column.
"""

import json
from collections.abc import Iterator
from typing import Any

from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_unchecked
from tests.support.paths import DATA

_DIRECTORY = DATA / "version_0_2"
REVISION = "0039"


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """The table and the columns that are not NULL."""
    for line in (_DIRECTORY / "rows.jsonl").read_text().splitlines():
        table, row = json.loads(line)
        yield table, {name: _decode(value) for name, value in row.items()}


def _decode(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


async def create(url: str, *, revision: str = REVISION, with_rows: bool = True) -> None:
    db = await open_unchecked(url, listen=False)
    try:
        await db.transact(_create_tables, db)
        await db.transact(_set_revision, revision)
        if with_rows:
            await db.transact(_insert_rows)
    finally:
        await db.close()


async def _create_tables(tx: Transaction, db: Database) -> None:
    script = (_DIRECTORY / f"{db.engine}.sql").read_text()
    for statement in script.split(";\n"):
        if statement.strip():
            await tx.execute(statement)


async def _set_revision(tx: Transaction, revision: str) -> None:
    await tx.execute("UPDATE alembic_version SET version_num = :revision", revision=revision)


async def _insert_rows(tx: Transaction) -> None:
    for table, row in rows():
        values = ", ".join(f":{name}" for name in row)
        await tx.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})", **row)
