"""How many lines the diff of a job adds and deletes, for lists of pull requests."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # NULL: stored by an earlier version.
    op.add_column("job_diffs", sa.Column("additions", sa.BigInteger, nullable=True))
    op.add_column("job_diffs", sa.Column("deletions", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
