"""The phases of a job's runs with their times."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # JSON. Null until a worker that knows the column has started the job.
    op.add_column("jobs", sa.Column("phases", sa.Text))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
