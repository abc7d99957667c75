"""One statement for many rows of values: a single call to PostgreSQL, which is sent arrays.

SQLite runs it for each row, which costs it no round trip. Knows no table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentjobs.store.database import Transaction


class ManyRows:
    """`one` is the statement for one row of parameters; in `many` stands `{rows}` for a source `v`
    of the same columns, whose types are told."""

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
