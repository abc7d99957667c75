"""Compares the tables, columns and indexes of the database with those that the migrations create.

The expectation is `migrations/schema.json`, which `make schema` writes after a new migration. A
database may have more than that: later migrations only add to the schema.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from agentjobs.store.database import Database, Engine
from agentjobs.store.revisions import MIGRATIONS

SNAPSHOT = MIGRATIONS / "schema.json"
_VERSION_TABLE = "alembic_version"

COLUMNS: Mapping[Engine, str] = {
    "sqlite": 'SELECT m.name AS table_name, c.name, c.type, c."notnull" AS is_required,'
    " c.dflt_value AS default_value FROM sqlite_master m JOIN pragma_table_info(m.name) c"
    " WHERE m.type = 'table' ORDER BY m.name, c.cid",
    "postgresql": "SELECT t.relname AS table_name, c.attname AS name,"
    " format_type(c.atttypid, c.atttypmod) AS type, c.attnotnull AS is_required,"
    " pg_get_expr(d.adbin, d.adrelid) AS default_value"
    " FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace"
    " JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped"
    " LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = c.attnum"
    " WHERE t.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    " AND pg_table_is_visible(t.oid) ORDER BY t.relname, c.attnum",
}
"""Every column by table."""

INDEXES: Mapping[Engine, str] = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    " ORDER BY name",
    # An interrupted creation leaves an index that is not valid.
    "postgresql": "SELECT i.relname AS name,"
    " replace(pg_get_indexdef(i.oid), ' ON ' || quote_ident(n.nspname) || '.', ' ON ') AS sql"
    " FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
    " JOIN pg_namespace n ON n.oid = i.relnamespace"
    " WHERE x.indisvalid AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    " AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.oid)"
    " AND pg_table_is_visible(x.indrelid) ORDER BY i.relname",
}
"""Every index with the statement that creates it, except those of constraints."""


class Column(msgspec.Struct, frozen=True, array_like=True):
    type: str
    is_required: bool
    default: str | None


class Schema(msgspec.Struct, frozen=True):
    """The columns of each table by name, and the statement that creates each index."""

    tables: dict[str, dict[str, Column]]
    indexes: dict[str, str]


class Difference(NamedTuple):
    """`mending` are the statements that add what is missing; none if rows would lack values.

    The program cannot work with a difference that is `fatal`.
    """

    what: str
    mending: tuple[str, ...] = ()
    fatal: bool = True

    @property
    def is_lost(self) -> bool:
        return self.fatal and not self.mending

    @property
    def remedy(self) -> str:
        if self.mending:
            return "run `agentjobs migrate`, which adds it"
        return "restore a backup" if self.fatal else "change it back"


@cache
def expected_schema(engine: Engine) -> Schema:
    return msgspec.json.decode(SNAPSHOT.read_bytes(), type=dict[Engine, Schema])[engine]


def build_schema(columns: Iterable[Any], indexes: Iterable[Any]) -> Schema:
    """Builds the schema from the rows of both queries."""
    tables: dict[str, dict[str, Column]] = {}
    for row in columns:
        if row["table_name"] != _VERSION_TABLE:
            column = Column(row["type"], bool(row["is_required"]), row["default_value"])
            tables.setdefault(row["table_name"], {})[row["name"]] = column
    # SQLite returns a statement as it was written.
    return Schema(tables, {row["name"]: " ".join(row["sql"].split()) for row in indexes})


async def read_schema(db: Database) -> Schema:
    return build_schema(
        await db.fetch_all(COLUMNS[db.engine]), await db.fetch_all(INDEXES[db.engine])
    )


async def compare_schema(db: Database, *, is_newer: bool) -> list[Difference]:
    """`is_newer`: a later version migrated the database, and may have replaced indexes."""
    return list(find_differences(db.engine, await read_schema(db), is_newer=is_newer))


def find_differences(engine: Engine, actual: Schema, *, is_newer: bool) -> Iterator[Difference]:
    expected = expected_schema(engine)
    for table, columns in expected.tables.items():
        if table not in actual.tables:
            yield Difference(f"the table {table} is missing")
            continue
        for name, column in columns.items():
            yield from _column_differences(table, name, column, actual.tables[table].get(name))
    for name, statement in {} if is_newer else expected.indexes.items():
        if name not in actual.indexes:
            is_unique = statement.startswith("CREATE UNIQUE")
            mending = _index_mending(engine, name, statement)
            yield Difference(f"the index {name} is missing", mending, fatal=is_unique)


def _column_differences(
    table: str, name: str, expected: Column, actual: Column | None
) -> Iterator[Difference]:
    if actual is None:
        yield Difference(
            f"the column {table}.{name} is missing", tuple(_column_mending(table, name, expected))
        )
    elif actual.type.lower() != expected.type.lower():
        what = f"the column {table}.{name} has the type {actual.type} instead of {expected.type}"
        yield Difference(what, fatal=False)


def _column_mending(table: str, name: str, column: Column) -> Iterator[str]:
    if column.is_required and column.default is None:
        return
    required = " NOT NULL" if column.is_required else ""
    default = "" if column.default is None else f" DEFAULT {column.default}"
    yield f'ALTER TABLE "{table}" ADD COLUMN "{name}" {column.type}{required}{default}'


def _index_mending(engine: Engine, name: str, statement: str) -> tuple[str, ...]:
    if engine == "sqlite":
        return (statement,)
    # Nobody who writes to the table waits.
    concurrently = statement.replace(f" INDEX {name} ", f" INDEX CONCURRENTLY {name} ", 1)
    return (f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"', concurrently)
