"""Creates and drops indexes on tables that may be large, without blocking those who write to them.

PostgreSQL does so outside a transaction. A migration that uses this module therefore does nothing
else: after an interruption it runs again from its beginning.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

_STATE = sa.text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


def create_index(
    name: str, table: str, columns: Sequence[str], *, unique: bool = False, where: str | None = None
) -> None:
    """`where` limits the index to some rows."""
    condition = None if where is None else sa.text(where)
    expressions = [column if column.isidentifier() else sa.text(column) for column in columns]
    if not _is_postgresql():
        op.create_index(name, table, expressions, unique=unique, sqlite_where=condition)
        return
    with _outside_transaction():
        # An interrupted attempt leaves an index that is not valid.
        if op.get_bind().execute(_STATE, {"name": name}).scalar() is False:
            op.drop_index(name, table, postgresql_concurrently=True)
        op.create_index(
            name,
            table,
            expressions,
            unique=unique,
            postgresql_where=condition,
            postgresql_concurrently=True,
            if_not_exists=True,
        )


def drop_index(name: str, table: str) -> None:
    if not _is_postgresql():
        op.drop_index(name, table)
        return
    with _outside_transaction():
        op.drop_index(name, table, postgresql_concurrently=True, if_exists=True)


def _is_postgresql() -> bool:
    name: str = op.get_context().dialect.name
    return name == "postgresql"


@contextmanager
def _outside_transaction() -> Iterator[None]:
    with op.get_context().autocommit_block():
        # Waiting for other transactions blocks no others here, so it needs no time limit.
        timeout = op.get_bind().execute(sa.text("SHOW lock_timeout")).scalar_one()
        op.execute("SET lock_timeout = 0")
        yield
        op.execute(f"SET lock_timeout = '{timeout}'")
