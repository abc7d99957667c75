"""Opens PostgreSQL connections and translates their errors."""

import contextlib
from typing import TYPE_CHECKING

import asyncpg

from agentjobs.store.database import IntegrityError, StoreError, StoreUnavailable
from agentjobs.store.postgresql.address import UNPARSABLE, display_address, is_parsable

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

CONNECT_SECONDS = 5.0
_CACHED_STATEMENTS = 512

_SESSION = {
    "application_name": "agentjobs",
    # Transactions await only the database, so an idle one belongs to a stopped process. Shorter
    # than a lease: its row locks must be gone when another worker takes over its jobs.
    "idle_in_transaction_session_timeout": "5000",
}

# SQLSTATE classes after which the same call may succeed later: connection, transaction rollback
# (deadlock), insufficient resources (disk full, too many connections), operator intervention.
_UNAVAILABLE_CLASSES = ("08", "40", "53", "57")
_UNAVAILABLE = (
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
)


async def connect(url: str, **session: str) -> Connection:
    if not is_parsable(url):
        raise StoreUnavailable(
            f"PostgreSQL at {display_address(url)} cannot be reached: {UNPARSABLE}"
        )
    try:
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            statement_cache_size=_CACHED_STATEMENTS,
            max_cached_statement_lifetime=0,
            server_settings={**_SESSION, **session},
        )
        await _prepare(connection)
        return connection
    except (ValueError, OverflowError):
        # The error text may quote a part of the password that was parsed as a port.
        reason = UNPARSABLE
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        reason = str(error)
    except TimeoutError:
        reason = f"no response within {CONNECT_SECONDS:g} s"
    except OSError as error:
        reason = str(error)
    raise StoreUnavailable(f"PostgreSQL at {display_address(url)} cannot be reached: {reason}")


async def _prepare(connection: Connection) -> None:
    if connection.get_server_version().major < 14:
        return
    try:
        # Otherwise a statement keeps running, with its locks, after its client is gone.
        await connection.execute("SET client_connection_check_interval = '1s'")
    except BaseException:
        connection.terminate()
        raise


async def close(connection: Connection, within_seconds: float) -> None:
    """Close gracefully; after the timeout, asyncpg terminates the connection."""
    with contextlib.suppress(
        asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError
    ):
        await connection.close(timeout=within_seconds)


def is_connection_lost(error: BaseException) -> bool:
    """The server is closing the connection, although it does not appear closed yet."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(("08", "57P"))
    return isinstance(error, asyncpg.InternalClientError)


def translate(error: Exception, connection: Connection) -> StoreError:
    """The store's exception for an asyncpg error."""
    return explain(error, connection.is_closed())


def explain(error: BaseException, connection_is_lost: bool) -> StoreError:
    if isinstance(error, StoreError):
        return error
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return IntegrityError(str(error))
    if connection_is_lost or is_connection_lost(error):
        return StoreUnavailable(f"the connection to the database was lost: {error}")
    if isinstance(error, _UNAVAILABLE) or _sqlstate_class(error) in _UNAVAILABLE_CLASSES:
        return StoreUnavailable(f"the database is temporarily unavailable: {error}")
    return StoreError(f"the database refused a statement: {error}")


def _sqlstate_class(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")[:2]
