"""Alembic's entry point: migrates the connection that `store.migrate` opened.

On SQLite, the transaction of `store.migrate` covers all migrations. On PostgreSQL, each migration
has its own, so that indexes can be created outside of one.
"""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transaction_per_migration=True,
    on_version_apply=context.config.attributes["on_version_apply"],
)
with context.begin_transaction():
    context.run_migrations()
