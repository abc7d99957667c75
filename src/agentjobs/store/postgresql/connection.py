"""Opens PostgreSQL connections and says in plain words what is wrong with one."""

import contextlib
from typing import TYPE_CHECKING

import asyncpg

from agentjobs.store.database import IntegrityError, StoreError, StoreUnavailable
from agentjobs.store.postgresql.address import UNREADABLE, is_readable, place

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

CONNECT_SECONDS = 5.0
_CACHED_STATEMENTS = 512

_SESSION = {
    "application_name": "agentjobs",
    # A transaction awaits nothing but the database: one that idles belongs to a stopped process.
    # Shorter than a lease: the rows it has locked must be free when others take its jobs over.
    "idle_in_transaction_session_timeout": "5000",
}

# Classes of SQLSTATE in which the same call may succeed later: connection, transaction rollback
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
    if not is_readable(url):
        raise StoreUnavailable(f"PostgreSQL at {place(url)} cannot be reached: {UNREADABLE}")
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
        # Its text may quote what was taken for a port, and is a part of the password.
        reason = UNREADABLE
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        reason = str(error)
    except TimeoutError:
        reason = f"no answer within {CONNECT_SECONDS:g} s"
    except OSError as error:
        reason = str(error)
    raise StoreUnavailable(f"PostgreSQL at {place(url)} cannot be reached: {reason}")


async def _prepare(connection: Connection) -> None:
    if connection.get_server_version().major < 14:
        return
    try:
        # Or a statement goes on, with its locks, for a client that is gone.
        await connection.execute("SET client_connection_check_interval = '1s'")
    except BaseException:
        connection.terminate()
        raise


async def close(connection: Connection, within_seconds: float) -> None:
    """Say goodbye; when nobody answers, asyncpg has cut the connection all the same."""
    with contextlib.suppress(
        asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError
    ):
        await connection.close(timeout=within_seconds)


def is_dying(error: BaseException) -> bool:
    """The server has said goodbye, and the end of the connection is not seen yet."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(("08", "57P"))
    return isinstance(error, asyncpg.InternalClientError)


def translate(error: Exception, connection: Connection) -> StoreError:
    """The store's own exception for what asyncpg raised."""
    return explain(error, connection.is_closed())


def explain(error: BaseException, connection_is_lost: bool) -> StoreError:
    if isinstance(error, StoreError):
        return error
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return IntegrityError(str(error))
    if connection_is_lost or is_dying(error):
        return StoreUnavailable(f"the connection to the database was lost: {error}")
    if isinstance(error, _UNAVAILABLE) or _sqlstate_class(error) in _UNAVAILABLE_CLASSES:
        return StoreUnavailable(f"the database cannot be used now: {error}")
    return StoreError(f"the database refused a statement: {error}")


def _sqlstate_class(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")[:2]
