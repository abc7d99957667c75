"""Creates indexes on tables that may be large, without blocking those who write to them.

PostgreSQL creates such an index outside a transaction. A migration that uses `create_index`
therefore does nothing else: after an interruption it runs again from its beginning.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

_STATE = sa.text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


def create_index(
    name: str, table: str, columns: Sequence[str], *, unique: bool = False, where: str | None = None
) -> None:
    """`where` limits the index to some rows. On PostgreSQL, repeating the call has no effect."""
    context = op.get_context()
    condition = None if where is None else sa.text(where)
    expressions = [column if column.isidentifier() else sa.text(column) for column in columns]
    if context.dialect.name != "postgresql":
        op.create_index(name, table, expressions, unique=unique, sqlite_where=condition)
        return
    with context.autocommit_block():
        # Waiting for old transactions blocks nobody here, so it needs no time limit.
        timeout = op.get_bind().execute(sa.text("SHOW lock_timeout")).scalar_one()
        op.execute("SET lock_timeout = 0")
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
        op.execute(f"SET lock_timeout = '{timeout}'")
