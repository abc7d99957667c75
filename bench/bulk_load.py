"""Writes generated rows directly into the tables of a store, which is empty but for its schema."""

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import asyncpg

_AT_ONCE = 5_000

Rows = Iterator[tuple[Any, ...]]


async def load_tables(url: str, tables: Mapping[str, Rows], columns: Mapping[str, str]) -> None:
    """`columns` are the names of each table's columns, separated by spaces."""
    names = {table: columns[table].split() for table in tables}
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        await asyncio.to_thread(_load_sqlite, path, tables, names)
    else:
        await _load_postgresql(url, tables, names)


def _load_sqlite(path: str, tables: Mapping[str, Rows], names: Mapping[str, list[str]]) -> None:
    with sqlite3.connect(path) as connection:
        # Durability does not matter for generated data.
        connection.execute("PRAGMA synchronous = OFF")
        for table, rows in tables.items():
            placeholders = ", ".join("?" * len(names[table]))
            connection.executemany(
                f"INSERT INTO {table} ({', '.join(names[table])}) VALUES ({placeholders})", rows
            )
            connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def _load_postgresql(
    url: str, tables: Mapping[str, Rows], names: Mapping[str, list[str]]
) -> None:
    connection = await asyncpg.connect(url)
    try:
        for table, rows in tables.items():
            while some := list(itertools.islice(rows, _AT_ONCE)):
                await connection.copy_records_to_table(table, records=some, columns=names[table])
        # Autovacuum would have done this within the thirty days.
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
