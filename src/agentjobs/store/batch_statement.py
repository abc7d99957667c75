"""A statement for many rows: one call with arrays on PostgreSQL, one per row on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentjobs.store.array_literal import array, array_literal
from agentjobs.store.database import Row, Transaction


class BatchStatement:
    """`one` is the statement for one row of parameters. In `many`, `{rows}` is a table `v` with
    the same columns; `types` are their PostgreSQL types."""

    def __init__(self, types: Mapping[str, str], *, one: str, many: str) -> None:
        names = ", ".join(types)
        # The subqueries hide the lengths of the arrays from the planner: see `statements.render`.
        arrays = ", ".join(f"(SELECT {array(name, type_)})" for name, type_ in types.items())
        self._names = tuple(types)
        self._one = one
        self._many = many.format(rows=f"unnest({arrays}) AS v({names})")

    async def fetch(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        """For statements with RETURNING. The order of the result is not that of the rows."""
        if tx.engine == "sqlite":
            results = [await tx.fetch_all(self._one, **row) for row in rows]
            return [returned for result in results for returned in result]
        return await tx.fetch_all(self._many, **self._columns(rows)) if rows else []

    async def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        if tx.engine == "sqlite":
            await tx.execute_many(self._one, rows)
        elif rows:
            await tx.execute(self._many, **self._columns(rows))

    def _columns(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        return {name: array_literal([row[name] for row in rows]) for name in self._names}
