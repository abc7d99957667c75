"""A statement for many rows: one call with arrays on PostgreSQL, one per row on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentjobs.store.database import Transaction


class BatchStatement:
    """`one` is the statement for one row of parameters. In `many`, `{rows}` is a table `v` with
    the same columns; `types` are their PostgreSQL types."""

    def __init__(self, types: Mapping[str, str], *, one: str, many: str) -> None:
        names = ", ".join(types)
        arrays = ", ".join(f"CAST(:{name} AS {type_}[])" for name, type_ in types.items())
        self._names = tuple(types)
        self._one = one
        self._many = many.format(rows=f"unnest({arrays}) AS v({names})")

    async def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        if tx.engine == "sqlite":
            await tx.execute_many(self._one, rows)
        elif rows:
            columns = {name: [row[name] for row in rows] for name in self._names}
            await tx.execute(self._many, **columns)
