"""Replaces the store in the baseline: statements are answered from memory instead of being run.

The first result of a read comes from a real store and is cached, so that the features above get
real rows; a write counts as done. Knows no tables.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentjobs.clock import now_ms
from agentjobs.store.database import Database, Engine, Row, Transaction
from agentjobs.store.opening import open_database

P = ParamSpec("P")
T = TypeVar("T")


async def open_memory(url: str, *, migrate: bool) -> Database:
    """Replaces `open_database`."""
    return MemoryDatabase(await open_database(url, migrate=migrate))


class MemoryDatabase:
    engine: Engine = "sqlite"

    def __init__(self, real: Database) -> None:
        self.changes = real.changes
        self._real = real
        self._one: dict[tuple[Any, ...], Row | None] = {}
        self._all: dict[tuple[Any, ...], list[Row]] = {}

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        tx = MemoryTransaction(self)
        result = await work(tx, *args, **kwargs)
        if tx.topics:
            self.changes.publish(*tx.topics)
        return result

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        asked = (sql, *parameters.values())
        if asked not in self._one:
            self._one[asked] = await self._real.fetch_one(sql, **parameters)
        return self._one[asked]

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        asked = (sql, *parameters.values())
        if asked not in self._all:
            self._all[asked] = await self._real.fetch_all(sql, **parameters)
        return self._all[asked]

    async def ping(self) -> None:
        await self._real.ping()

    async def close(self) -> None:
        await self._real.close()


class MemoryTransaction:
    engine: Engine = "sqlite"

    def __init__(self, db: MemoryDatabase) -> None:
        self.topics: set[str] = set()
        self.fetch_one = db.fetch_one
        self.fetch_all = db.fetch_all

    async def execute(self, sql: str, /, **_parameters: Any) -> int:
        # Loops that delete in batches must end.
        return 1 if sql.startswith("INSERT") else 0

    async def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Nothing to close."""

    async def clock_ms(self) -> int:
        return now_ms()

    def announce(self, *topics: str) -> None:
        self.topics.update(topics)

    async def invalidate(self, *topics: str) -> None:
        self.topics.update(topics)
