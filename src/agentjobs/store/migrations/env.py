"""Alembic's entry: migrates the connection that the runner opened, locked and will commit."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
