"""What the store promises to the features above it, whichever engine is underneath.

Owns the protocols and the exceptions. Refuses to know any table.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from agentjobs.store.changes import Changes

Engine = Literal["sqlite", "postgresql"]
P = ParamSpec("P")
T = TypeVar("T")


class StoreError(Exception):
    """The store could not do what it was asked to do."""


class StoreUnavailable(StoreError):
    """The database is away, locked or full; the same call may succeed later.

    Nothing was changed, unless the connection was lost in the very moment of the commit.
    """


class IntegrityError(StoreError):
    """A unique, foreign key, not-null or check constraint refused the statement."""


class ForeignAwait(StoreError):
    """A transaction awaited something other than its own `tx`."""


class NestedTransaction(StoreError):
    """The database was called from inside a transaction instead of its `tx`."""


class TransactionOver(StoreError):
    """`tx` was used after it ended, or after one of its statements failed."""


class MigrationsBehind(StoreError):
    """The database has not got the schema of this program yet."""


class SchemaTooNew(StoreError):
    """The database was migrated by a newer program than this one."""


class Row(Protocol):
    """A row by column name: `row["name"]`, `dict(row)`. On SQLite a boolean arrives as 0 or 1."""

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Transaction(Protocol):
    """What a function given to `transact` may await, and nothing else."""

    @property
    def engine(self) -> Engine: ...

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None: ...

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]: ...

    async def execute(self, sql: str, /, **parameters: Any) -> int:
        """The number of rows changed."""

    async def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        """The same statement for each row of parameters, without a round trip for each."""

    async def clock_ms(self) -> int:
        """The database's time on PostgreSQL, so that leases agree among machines."""

    def announce(self, *topics: str) -> None:
        """Wake-ups, told after the commit; to other processes at most every few milliseconds."""

    async def invalidate(self, *topics: str) -> None:
        """Caches, told with the commit itself: it cannot happen without the other."""


class Database(Protocol):
    """An open store. It belongs to the event loop in which it was opened."""

    changes: Changes

    @property
    def engine(self) -> Engine: ...

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work(tx, …)` and commit it; if it raises, nothing of it remains.

        On SQLite a caller that is cancelled once the work began does not stop the commit.
        """

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        """A point read: by key, a row at most. On SQLite it runs on the event loop's thread."""

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        """A scan. On SQLite it runs in a thread pool."""

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the database answers."""

    async def close(self) -> None:
        """Finish what was begun, tell what was announced, let go of the database."""
