"""Statements for many rows: one call with arrays on PostgreSQL, one per row on SQLite."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from agentjobs.store.array_literal import array, array_literal
from agentjobs.store.database import Row, Transaction


class BatchStatement:
    """`one` is the statement for one row of parameters. In `many`, `{rows}` is a table `v` with
    the same columns; `types` are their PostgreSQL types."""

    def __init__(self, types: Mapping[str, str], *, one: str, many: str) -> None:
        self._names = tuple(types)
        self._one = one
        self.many = many.format(rows=rows_source(types))

    async def fetch(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Runs a statement with RETURNING. The order of the result is not that of the rows."""
        if tx.engine == "sqlite":
            results = [await tx.fetch_all(self._one, **row) for row in rows]
            return [returned for result in results for returned in result]
        return await tx.fetch_all(self.many, **self._columns(rows)) if rows else []

    async def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        if tx.engine == "sqlite":
            await tx.execute_many(self._one, rows)
        elif rows:
            await tx.execute(self.many, **self._columns(rows))

    def _columns(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        return row_parameters(self._names, rows)


class Table:
    """A table to insert into, and the PostgreSQL types of the columns that rows have."""

    def __init__(self, name: str, types: Mapping[str, str]) -> None:
        self.types = types
        self._into = f"INSERT INTO {name} ({', '.join(types)})"
        self.insert_one = f"{self._into} VALUES ({', '.join(f':{column}' for column in types)})"

    def insert_many(self, prefix: str = "") -> str:
        """Takes arrays as parameters, whose names begin with the prefix."""
        return f"{self._into} SELECT {', '.join(self.types)} FROM {rows_source(self.types, prefix)}"


async def insert_rows(
    tx: Transaction, rows: Mapping[Table, Sequence[Mapping[str, Any]]], *, is_last: bool = False
) -> None:
    """Insert into several tables, with one statement on PostgreSQL; `is_last` is for
    `execute_last`."""
    filled = {table: added for table, added in rows.items() if added}
    if tx.engine == "sqlite":
        for table, added in filled.items():
            await tx.execute_many(table.insert_one, added)
    elif filled:
        parameters: dict[str, str] = {}
        for number, (table, added) in enumerate(filled.items()):
            parameters |= row_parameters(table.types, added, _prefix(number))
        run = tx.execute_last if is_last else tx.execute
        await run(_insert_into(*filled), **parameters)


@lru_cache
def _insert_into(*tables: Table) -> str:
    inserts = [table.insert_many(_prefix(number)) for number, table in enumerate(tables)]
    named = ", ".join(f"i{number} AS ({insert})" for number, insert in enumerate(inserts[1:]))
    return f"WITH {named} {inserts[0]}" if named else inserts[0]


def _prefix(number: int) -> str:
    return f"t{number}_"


def rows_source(types: Mapping[str, str], prefix: str = "") -> str:
    """For PostgreSQL: a table `v` of rows, which are passed as `row_parameters`."""
    # The subqueries hide the lengths of the arrays from the planner: see `statements.render`.
    arrays = (f"(SELECT {array(prefix + name, type_)})" for name, type_ in types.items())
    return f"unnest({', '.join(arrays)}) AS v({', '.join(types)})"


def row_parameters(
    names: Iterable[str], rows: Sequence[Mapping[str, Any]], prefix: str = ""
) -> dict[str, str]:
    return {prefix + name: array_literal([row[name] for row in rows]) for name in names}
