"""Processes with their versions and configurations, and leases for work that one of them does."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_processes()
    _create_leases()
    _add_to_workers()
    # The process that runs the import renews it; NULL for imports of earlier versions.
    op.add_column("repo_imports", sa.Column("lease_until", sa.BigInteger, nullable=True))
    # Apart from the due times, so that work requested during the work cannot start beside it.
    op.add_column("repos", sa.Column("index_lease_until", sa.BigInteger, nullable=True))
    op.add_column("repos", sa.Column("sync_lease_until", sa.BigInteger, nullable=True))


def _create_processes() -> None:
    """Running processes with an API; workers have a table of their own."""
    op.create_table(
        "processes",
        sa.Column("id", sa.Text, primary_key=True),
        # serve or up
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("hostname", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("configuration_digest", sa.Text, nullable=False),
        # Why it cannot use the directory of the repositories; NULL if it can.
        sa.Column("repositories_problem", sa.Text, nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
    )


def _create_leases() -> None:
    """Named leases: roles that run once in the fleet, and changes to one repository."""
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("held_until", sa.BigInteger, nullable=False),
        # When the role is due next; 0 for leases that are not periodic.
        sa.Column("due_at", sa.BigInteger, nullable=False, server_default="0"),
    )


def _add_to_workers() -> None:
    for name in ("version", "configuration_digest"):
        op.add_column("workers", sa.Column(name, sa.Text, nullable=False, server_default=""))
    # A JSON array of strings.
    op.add_column("workers", sa.Column("tags", sa.Text, nullable=False, server_default="[]"))
    op.add_column("workers", sa.Column("drain_requested_at", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
