"""The order of waiting jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Milliseconds: when the job was created, earlier for high and later for low priority.
    op.add_column(
        "jobs", sa.Column("queue_order", sa.BigInteger, nullable=False, server_default="0")
    )
    op.execute("UPDATE jobs SET queue_order = created_at WHERE completed_at IS NULL")


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
