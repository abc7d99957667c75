"""Indexes to list the events of an organization."""

from agentjobs.store.migrations.indexes import create_index

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    unlisted = "organization_id IS NOT NULL AND position IS NULL"
    create_index("events_unlisted", "events", ["organization_id", "created_at"], where=unlisted)
    create_index(
        "events_listed",
        "events",
        ["organization_id", "position"],
        unique=True,
        where="position IS NOT NULL",
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
