"""The trace that each job belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # As W3C Trace Context writes it; NULL: none.
    op.add_column("jobs", sa.Column("traceparent", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
