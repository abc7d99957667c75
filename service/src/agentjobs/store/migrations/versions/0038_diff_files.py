"""How many files the diff of a job changes, for its page."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # NULL: stored by an earlier version.
    op.add_column("job_diffs", sa.Column("files", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
