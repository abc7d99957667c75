"""How each lost claim ended, apart from the worker that had it."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # 'worker', 'sandbox' or 'adoption'. Processes that do not know the column record workers.
    op.add_column(
        "lost_claims", sa.Column("kind", sa.Text, nullable=False, server_default="worker")
    )
    op.execute("UPDATE lost_claims SET kind = worker_id WHERE worker_id IN ('sandbox', 'adoption')")


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
