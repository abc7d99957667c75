"""Functions that run in a transaction of their own, and transactions of one statement."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentjobs.store.database import Database, Transaction

P = ParamSpec("P")
T = TypeVar("T")


def in_transaction(
    work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Database, P], Coroutine[Any, Any, T]]:
    """A function that gets the database and runs `work` with `transact`."""

    @wraps(work)
    async def run(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await db.transact(work, *args, **kwargs)

    return run


def in_large_transaction(
    work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Database, P], Coroutine[Any, Any, T]]:
    """`in_transaction` for work that writes or deletes megabytes."""

    @wraps(work)
    async def run(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await db.transact_large(work, *args, **kwargs)

    return run


async def execute(tx: Transaction, sql: str, /, **parameters: Any) -> int:
    """`db.transact(execute, "DELETE …", id=…)` returns the number of rows that were changed."""
    return await tx.execute(sql, **parameters)


async def execute_many(tx: Transaction, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
    await tx.execute_many(sql, rows)
