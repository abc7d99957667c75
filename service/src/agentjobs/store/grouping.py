"""Runs calls that wait for the same kind of transaction or read together, as one.

While one of them runs, further calls wait; the next one takes them all. A commit and the round
trips are then shared, and a call that nobody waits with is not delayed.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs.store.transactions import forbid_inside_transaction

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Transaction, Sequence[T]], Coroutine[Any, Any, Sequence[R]]]
Read = Callable[[Database, Sequence[T]], Coroutine[Any, Any, Sequence[R]]]
_Call = Callable[[Sequence[T]], Coroutine[Any, Any, Sequence[R]]]

_MAX_ITEMS = 200


async def transact_together(db: Database, work: Work[T, R], item: T) -> R:
    """Run `work(tx, items)` with this item and return its result; results are in the items' order.

    A caller that is cancelled after the work has started does not stop the commit.
    """
    return await _join(db, work, lambda items: db.transact(work, items), item)


async def read_together(db: Database, read: Read[T, R], item: T) -> R:
    """Run `read(db, items)` with this item and return its result; results are in the items' order.

    For PostgreSQL: on SQLite a point read needs no round trip that could be shared.
    """
    return await _join(db, read, lambda items: read(db, items), item)


async def _join(db: Database, kind: object, call: _Call[T, R], item: T) -> R:
    forbid_inside_transaction()
    group: _Group[T, R] = db.groups.setdefault(kind, _Group())
    result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    group.waiting.append((item, result))
    if group.task is None:
        # In an empty context: the group belongs to no single caller.
        group.task = asyncio.create_task(group.run(call), context=contextvars.Context())
    return await result


@dataclass(slots=True)
class _Group(Generic[T, R]):
    waiting: list[tuple[T, asyncio.Future[R]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def run(self, call: _Call[T, R]) -> None:
        calls: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self.waiting:
                calls, self.waiting = self.waiting[:_MAX_ITEMS], self.waiting[_MAX_ITEMS:]
                await _run(call, [call for call in calls if not call[1].done()])
        finally:
            self.task = None
            for _, result in (*calls, *self.waiting):
                result.cancel()


async def _run(call: _Call[T, R], calls: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
    if not calls:
        return
    try:
        results = await call([item for item, _ in calls])
    except StoreUnavailable as error:
        _fail(calls, error)
    except Exception as error:  # noqa: BLE001 - raised to the caller that caused it
        if len(calls) == 1:
            _fail(calls, error)
            return
        for pending in calls:
            await _run(call, [pending])
    else:
        for (_, future), result in zip(calls, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(calls: Sequence[tuple[T, asyncio.Future[R]]], error: Exception) -> None:
    for _, future in calls:
        if not future.done():
            future.set_exception(error)
