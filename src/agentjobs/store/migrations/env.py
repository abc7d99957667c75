"""Alembic's entry point: migrates the connection that `store.migrate` opened and will commit."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
