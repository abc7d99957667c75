"""The order of waiting jobs, and indexes to find the organizations that a worker can serve."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_WAITING = sa.text("status = 'queued' AND lease_owner IS NULL")


def upgrade() -> None:
    # Milliseconds: when the job was created, earlier for high and later for low priority.
    op.add_column(
        "jobs", sa.Column("queue_order", sa.BigInteger, nullable=False, server_default="0")
    )
    op.execute("UPDATE jobs SET queue_order = created_at WHERE completed_at IS NULL")
    _waiting_index("jobs_waiting_in_order", ["organization_id", "queue_order", "id"])
    _waiting_index("jobs_waiting_for_agent", ["agent", "organization_id"])
    op.drop_index("jobs_waiting", "jobs")


def _waiting_index(name: str, columns: list[str]) -> None:
    op.create_index(name, "jobs", columns, sqlite_where=_WAITING, postgresql_where=_WAITING)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
