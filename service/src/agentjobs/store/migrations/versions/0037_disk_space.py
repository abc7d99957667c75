"""Free space on the disks of workers and of processes with an API."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # NULL: the process does not report it.
    for table in ("workers", "processes"):
        for name in ("disk_free_bytes", "disk_total_bytes"):
            op.add_column(table, sa.Column(name, sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
