"""Opens PostgreSQL connections and translates their errors."""

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

import asyncpg

from agentjobs.store.database import IntegrityError, StoreError, StoreFull, StoreUnavailable
from agentjobs.store.postgresql.address import (
    UNPARSABLE,
    display_address,
    has_option,
    is_parsable,
    split_hosts,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

CONNECT_SECONDS = 5.0
"""A limit for all hosts of a URL together."""
IDLE_IN_TRANSACTION_MS = 5_000
"""Transactions await only the database, so an idle one belongs to a stopped process. Shorter than a
lease: its row locks must be gone when another worker takes over its jobs."""
MIN_RELEASE = 14
"""Older releases get no fixes any more."""
_MIN_HOST_SECONDS = 1.0
_CACHED_STATEMENTS = 512
_DEAD_HOST_SECONDS = 5
# The kernel ends a connection to a machine that disappeared; otherwise that takes many minutes.
_SOCKET_OPTIONS = {
    "TCP_USER_TIMEOUT": _DEAD_HOST_SECONDS * 1_000,
    "TCP_KEEPIDLE": _DEAD_HOST_SECONDS,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 3,
}

# SQLSTATE classes after which the same call may succeed later: connection, a server that became a
# standby, transaction rollback (deadlock), insufficient resources (disk full, too many
# connections), operator intervention.
_UNAVAILABLE_CLASSES = ("08", "0A", "40", "53", "57")
_UNAVAILABLE = (
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
)
_OF_OTHER_SESSION = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
# Statements read a few rows by an index. With the default, which is for rotating disks, PostgreSQL
# prefers to scan tables while they are small or not analyzed yet, and a prepared statement keeps
# that plan while they grow.
_PLANNER = {"random_page_cost": "1.1", "jit": "off"}

_REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "check user and password in AGENTJOBS_DATABASE_URL, and pg_hba.conf of the server",
    ),
    (
        asyncpg.InvalidCatalogNameError,
        "create it with `createdb`, or correct AGENTJOBS_DATABASE_URL",
    ),
    (socket.gaierror, "check the host in AGENTJOBS_DATABASE_URL"),
    (ConnectionError, "check sslmode in AGENTJOBS_DATABASE_URL"),
)

_last_host: dict[str, str] = {}
"""For each URL, the URL of the host that was connected last."""


async def connect(url: str, *, through_pooler: bool = False, **session: str) -> Connection:
    """Connect to the first host of the URL that answers and is no standby.

    Through a pooler, connections have no session settings and no prepared statements, because each
    transaction may use another server connection.
    """
    if not is_parsable(url):
        raise StoreUnavailable(
            f"PostgreSQL at {display_address(url)} cannot be reached: {UNPARSABLE}"
        )
    # The host that worked the last time first: another one may not even refuse connections.
    urls = sorted(split_hosts(url), key=lambda host_url: host_url != _last_host.get(url))
    timeout_seconds = max(CONNECT_SECONDS / len(urls), _MIN_HOST_SECONDS)
    reasons = []
    for host_url in urls:
        try:
            connection = await _connect_host(host_url, timeout_seconds, through_pooler)
            if (release := connection.get_server_version().major) < MIN_RELEASE:
                connection.terminate()
                reasons.append(_describe_old(release))
                continue
            if not through_pooler:
                await _prepare(connection, session)
            _last_host[url] = host_url
            return connection
        except (ValueError, OverflowError):
            # The error text may quote a part of the password that was parsed as a port.
            reasons.append(UNPARSABLE)
        except asyncpg.TargetServerAttributeNotMatched:
            reasons.append("the server is a standby")
        except TimeoutError:
            reasons.append(
                f"no response within {timeout_seconds:g} s; check the host and port in"
                " AGENTJOBS_DATABASE_URL, and firewalls"
            )
        except (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            OSError,
        ) as error:
            reasons.append(_describe_failure(error))
    reason = "; ".join(dict.fromkeys(reasons))
    raise StoreUnavailable(f"PostgreSQL at {display_address(url)} cannot be reached: {reason}")


def _describe_old(release: int) -> str:
    return f"it is PostgreSQL {release}, and agentjobs needs {MIN_RELEASE} or newer; upgrade it"


def _describe_failure(error: Exception) -> str:
    """What the server or the system says, and what to do."""
    if isinstance(error, FileNotFoundError):
        return "the URL names a file that does not exist, such as a socket or sslrootcert"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # Python's own text names its functions.
        return f"{os.strerror(error.errno)}; check that it runs there, and AGENTJOBS_DATABASE_URL"
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return f"{error}; {remedy}"
    return str(error)


async def _connect_host(url: str, timeout_seconds: float, through_pooler: bool) -> Connection:
    has_target = has_option(url, "target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS")
    connection = await asyncpg.connect(
        url,
        timeout=timeout_seconds,
        statement_cache_size=0 if through_pooler else _CACHED_STATEMENTS,
        max_cached_statement_lifetime=0,
        target_session_attrs=None if has_target else asyncpg.connect_utils.SessionAttribute.primary,
        server_settings={"application_name": "agentjobs"},
    )
    # asyncpg has no option for it.
    transport: asyncio.Transport = connection._transport  # type: ignore[attr-defined]  # not in the stubs
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.family != socket.AF_UNIX:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS.items():
            if hasattr(socket, name):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


async def _prepare(connection: Connection, session: dict[str, str]) -> None:
    """Apply the settings of the session.

    They are not part of the connection request: a server too old for one of them would refuse it
    without saying which release it is.
    """
    settings = {
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}",
        # Otherwise a statement keeps running, with its locks, after its client is gone.
        "client_connection_check_interval": "1s",
        # As `BEGIN READ WRITE`: a statement that commits by itself is refused otherwise.
        "default_transaction_read_only": "off",
        **_PLANNER,
        **session,
    }
    try:
        await connection.execute(
            ";".join(f"SET {name} = '{value}'" for name, value in settings.items())
        )
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


def is_standby_refusal(error: BaseException) -> bool:
    """The server is, or has become, a standby, so its connection is of no use any more."""
    return _sqlstate_class(error) == "0A" or getattr(error, "sqlstate", None) == "25006"


def translate(error: Exception, connection: Connection) -> StoreError:
    """The store's exception for an asyncpg error."""
    return explain(error, connection.is_closed())


def explain(error: BaseException, connection_is_lost: bool) -> StoreError:
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return IntegrityError(str(error))
    if connection_is_lost or is_connection_lost(error):
        return StoreUnavailable(f"the connection to the database was lost: {_describe(error)}")
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull(f"the disk of the database server is full; free some space: {error}")
    if isinstance(error, _UNAVAILABLE) or _sqlstate_class(error) in _UNAVAILABLE_CLASSES:
        return StoreUnavailable(f"the database is temporarily unavailable: {error}")
    return StoreError(f"the database refused a statement: {_describe(error)}")


def _describe(error: BaseException) -> str:
    """asyncpg has advice for programmers, if a session is not the one of the call before."""
    if isinstance(error, _OF_OTHER_SESSION):
        return (
            "AGENTJOBS_DATABASE_URL leads to a connection pooler in transaction mode; set"
            " AGENTJOBS_DATABASE_DIRECT_URL to PostgreSQL itself, too"
        )
    return str(error)


def _sqlstate_class(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")[:2]
