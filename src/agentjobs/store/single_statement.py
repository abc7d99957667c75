"""Transactions of one statement: `db.transact(execute, "DELETE …", id=…)`."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentjobs.store.database import Transaction


async def execute(tx: Transaction, sql: str, /, **parameters: Any) -> int:
    """The number of rows that were changed."""
    return await tx.execute(sql, **parameters)


async def execute_many(tx: Transaction, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
    await tx.execute_many(sql, rows)
