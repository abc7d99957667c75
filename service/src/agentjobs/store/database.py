"""The interface of the store: protocols and exceptions that both engines implement.

Knows no tables.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast

from msgspec import Struct

from agentjobs.store.changes import Changes
from agentjobs.store.contact import Contact
from agentjobs_runtime.protocol.errors import ServiceError, ServiceUnavailable

Engine = Literal["sqlite", "postgresql"]
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class StoreError(ServiceError):
    """The store refused or failed an operation."""


class StoreUnavailable(StoreError, ServiceUnavailable):
    """The database is unreachable, locked or full; the same call may succeed later.

    Nothing was changed, unless the connection was lost during the commit.
    """


class StoreFull(StoreUnavailable):
    """The disk of the database is full."""


class IntegrityError(StoreError):
    """A unique, foreign key, not-null or check constraint refused the statement."""


class ForeignAwait(StoreError):
    """A transaction awaited something other than its own `tx`."""


class NestedTransaction(StoreError):
    """The database was called from inside a transaction instead of its `tx`."""


class TransactionEnded(StoreError):
    """`tx` was used after it ended, or after one of its statements failed."""


class SchemaTooOld(StoreError):
    """The database has an older schema than this program."""


class SchemaTooNew(StoreError):
    """The database was migrated by a newer version of the program."""


class SchemaDamaged(StoreError):
    """The database lacks something that its revision should have."""


class Row(Protocol):
    """A row by column name: `row["name"]`, `dict(row)`. On SQLite a boolean arrives as 0 or 1."""

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


def column_values(row: Row) -> Iterable[Any]:
    """The columns in their order. For rows of which every column is read: SQLite's own compare the
    names one by one to find a column."""
    return cast("Iterable[Any]", row)


def to_struct(row: Row, type_: type[S], **others: Any) -> S:
    """Fills the fields from the columns of the same names, except `others`."""
    names = [name for name in type_.__struct_fields__ if name not in others]
    return type_(**{name: row[name] for name in names}, **others)


class Transaction(Protocol):
    """The only object that a function passed to `transact` may await."""

    @property
    def engine(self) -> Engine: ...

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None: ...

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]: ...

    async def execute(self, sql: str, /, **parameters: Any) -> int:
        """The number of rows changed."""

    async def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run the statement for each row of parameters, without a round trip per row."""

    async def execute_last(self, sql: str, /, **parameters: Any) -> list[Row]:
        """Run the last statement and return its rows; the work must not raise after it.

        If all others were reads, PostgreSQL commits it by itself, which saves two round trips.
        """

    async def clock_ms(self) -> int:
        """The database's clock on PostgreSQL, so that leases are consistent across machines."""

    def announce(self, *topics: str) -> None:
        """Wake waiting tasks after the commit. Other processes are notified with throttling."""

    async def invalidate(self, *topics: str) -> None:
        """Clear caches. The notification is part of the transaction, so it cannot be lost."""


class Database(Protocol):
    """An open store, bound to the event loop in which it was opened."""

    changes: Changes
    contact: Contact
    # What waits for a shared transaction; see `grouping`.
    groups: dict[Any, Any]

    @property
    def engine(self) -> Engine: ...

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work(tx, …)` and commit; roll back if it raises.

        On SQLite, cancelling the caller after the work has started does not stop the commit.
        """

    async def transact_large(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`transact` for statements that write or delete megabytes.

        On SQLite they run in a thread, so that they do not block the event loop.
        """

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        """A point read of at most one row by key. On SQLite it runs on the event loop's thread."""

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        """A scan. On SQLite it runs in a thread pool."""

    async def clock_ms(self) -> int:
        """The time of `tx.clock_ms`, usually without a round trip."""

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the database responds."""

    async def check_writable(self) -> None:
        """Raise StoreUnavailable unless a change can be committed."""

    async def close(self) -> None:
        """Finish running transactions, send pending notifications and close the connections."""
